"""End a job that is refused before it has a row: it is dead, as every other dead job.

What waits for it would wait for ever without a row: it would look queued.
"""

from longhaul.context import Context
from longhaul.domain import transitions
from longhaul.domain.claim import refused
from longhaul.domain.dead_letter import Reason
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.lease import Lease, Receive
from longhaul.domain.message import Message
from longhaul.domain.request import JobRequest
from longhaul.settings import Stage


def refuse(
    context: Context,
    stage: Stage,
    content: Message,
    reason: Reason,
    receive: Receive,
    *,
    request: JobRequest | None = None,
    row: Lease | None = None,
) -> Lease | None:
    """Write the row of a refused job; returns it, for `finish`.

    Args:
        context: What the use cases share.
        stage: The stage of the job.
        content: The message.
        reason: Why it is refused, with the key of its job.
        receive: Of the message; one without an id of what was never sent.
        request: What it asks for; None if it is no request.
        row: The row that the job has: that of an earlier refusal, or None.

    Returns:
        None where another row has the key: that stays as it is.
    """
    key = reason.key
    if key is None or (row is not None and not (row.is_refused and row.is_finished)):
        return None
    dead = refused(row, reason, key, stage.name, receive, request, context.clock.now())
    context.requests.put(dead.request_ref, content)
    try:
        return context.leases.apply(transitions.refuse(row, dead))
    except LeaseChangedError as error:
        other = error.current
        if other is None or not other.is_refused:
            return None
        # Of this very message: a function has died before all was done.
        return other if other.receive.is_of(receive.chain) else None
