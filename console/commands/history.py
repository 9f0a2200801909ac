"""`longhaul history`: every attempt of a job."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from console.attempts import COLUMNS, row_of
from console.options import AsJson, StageName, find_job, on_target
from console.output import Output
from console.target import Target
from longhaul.domain.history import Attempt
from longhaul.domain.lease import Lease, State
from longhaul.domain.timeline import SegmentKind, lane
from longhaul.view import attempt_record


@on_target
def history(
    target: Target,
    *,
    job: Annotated[str, typer.Argument(help="The job's id.")],
    stage: StageName = None,
    as_json: AsJson = False,
) -> None:
    """Show every attempt of a job: how long it waited, when it began, how far it came, how it ended and why.

    An attempt of another run (after a redrive or a retry of a dead job) counts on. --json gives all of it: times, adoptions, hand-overs, execution and log.

    Example: longhaul history flights-2013-01
    """
    out = Output(as_json=as_json)
    lease = find_job(target, job, stage)
    attempts = target.parts.leases.history([lease])[lease.key]
    now = target.parts.clock.now()
    if as_json:
        for attempt in attempts:
            out.record(attempt_record(attempt, target.parts.executions, now))
    else:
        out.table(COLUMNS, [row_of(attempt, now) for attempt in attempts])
    for note in _notes(lease, attempts, now):
        out.note(note)


def _notes(lease: Lease, attempts: Sequence[Attempt], now: datetime) -> list[str]:
    if lease.is_mark:
        return ["cancelled before it began: it had no attempt"]
    found = []
    earlier = attempts[0].attempt - 1
    if earlier:
        found.append(f"{earlier} earlier attempt{'s are' if earlier > 1 else ' is'} not remembered")
    shown = lane(lease, attempts)
    waited = sum(shown.seconds(now, kind) for kind in (SegmentKind.WAITING, SegmentKind.BACKING_OFF))
    ran = sum(shown.seconds(now, kind) for kind in (SegmentKind.STARTING, SegmentKind.RUNNING))
    ended = lease.state.value if lease.state is not State.RELEASED else "waits for its next attempt"
    return [*found, f"{lease.job_id}: {ended}; waited {waited:.0f} s and ran {ran:.0f} s in all"]
