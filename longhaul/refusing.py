"""Note that a message became a dead letter before its job had a row.

What waits for the job would wait for ever: without a row it looks queued.
"""

from longhaul.context import Context
from longhaul.domain.dead_letter import Reason, id_in
from longhaul.domain.lease import job_key

CONFLICTING = "conflicting_job_id"


def note_refused(context: Context, stage: str, body: str, reason: Reason) -> None:
    """Note it before the dead letter is sent, so that a crash in between repeats it.

    A body that is no request may still name its job. Of a conflict the row is another's.
    """
    job_id = id_in(body) or (reason.key.partition("#")[2] if reason.key else None)
    if job_id is not None and reason.kind != CONFLICTING:
        context.refusals.note_refusal(job_key(stage, job_id), reason, context.clock.now())
