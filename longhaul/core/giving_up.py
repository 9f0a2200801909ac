"""A job that ends as a dead letter without an attempt's end: refused, or given up.

A job that raises the same error each time would circle unseen: its message comes back, or a sweep
repairs its row again. So errors are counted where they are caught, and the last one ends the job.

A job that is refused before it has a row is dead as every other dead job: what waits for it would
wait for ever without a row, and it would look queued.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from aws_lambda_powertools import Logger

from longhaul.core import transitions
from longhaul.core.claim import refused
from longhaul.core.dead_letter import Reason, dead_letter
from longhaul.core.errors import LeaseChangedError
from longhaul.core.lease import Lease, Receive, State
from longhaul.core.message import Message
from longhaul.core.ports import Context
from longhaul.core.request import JobRequest
from longhaul.core.settings import Stage
from longhaul.core.settlement import given_up

logger = Logger(child=True)


@dataclass(frozen=True, kw_only=True)
class GivingUp:
    context: Context

    def is_due(self, key: str, place: str, error: Exception) -> bool:
        """Count an error of a job; whether the job is to be given up."""
        return self.context.troubles.is_hopeless(key, place, error, self.context.clock.now())

    def end(self, lease: Lease, error: Exception) -> Lease:
        """Make the row DEAD, with a dead letter owed; returns the row that `finish` then does.

        A row that changed meanwhile is left alone: something else went on with the job.
        """
        after = given_up(lease, error, self.context.leases.aws_time())
        is_running = lease.state is State.RUNNING
        write = transitions.settle if is_running else transitions.end_waiting
        try:
            self.context.leases.apply(write(lease, after))
        except LeaseChangedError as changed:
            return changed.current or lease
        logger.error("job given up", extra={"lease": lease.key, "error": type(error).__name__})
        return after

    def send(self, queue_url: str, content: Callable[[], Message], reason: Reason) -> None:
        """Send a dead letter, with the job's id alone where it is gone, or SQS will not take it.

        Raises the errors of AWS's side: then nothing was sent, and the whole may be later.
        """
        try:
            self.context.queue.send(queue_url, dead_letter(content(), reason))
        except Exception as error:
            if not self.context.troubles.counts(error):
                raise
            logger.exception("dead letter not sent whole", extra={"lease": reason.key})
            bare = {"job_id": reason.key.partition("#")[2]} if reason.key else {}
            self.context.queue.send(queue_url, dead_letter(Message(json.dumps(bare), {}), reason))


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
