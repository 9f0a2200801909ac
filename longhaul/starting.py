"""Start the execution of an attempt, or find that it runs already."""

from dataclasses import dataclass, replace

from aws_lambda_powertools import Logger

from longhaul.batch import Batch, Closed, Messages
from longhaul.context import Context
from longhaul.domain import beat, transitions
from longhaul.domain.claim import Claim, PlanRun
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.follow_ons import with_emission, with_joins, with_next
from longhaul.domain.lease import Lease
from longhaul.domain.message import JobMessage
from longhaul.domain.pace import Pace

logger = Logger(child=True)

_STOPPING_S = 15
"""Wait for the task of the previous run to end.

Most end within seconds, one that ignores SIGTERM after `stop_timeout_s`.
"""


@dataclass(frozen=True, kw_only=True)
class Starter:
    context: Context
    messages: Messages

    def start(self, message: JobMessage, claim: Claim, batch: Batch, pace: Pace) -> None:
        if self._is_task_left(claim):
            self.messages.postpone(batch, message, _STOPPING_S)
            return
        if claim.starts_run:
            claim = replace(claim, lease=self._run_of(message, claim.lease))
        lease = claim.lease
        closed_as = self.claim_and_start(claim, batch, pace)
        if closed_as is not None:
            batch.slow.append((message, Closed(lease.id, closed_as)))
        else:
            self._hold_until_first_beat(message, lease, batch)

    def begin_later(self, message: JobMessage, plan: PlanRun, batch: Batch) -> None:
        """Take a job whose run begins later, and hide its message until then."""
        # The new row forgets the task, and the run may begin in a moment.
        if self._is_task_left(plan):
            self.messages.postpone(batch, message, _STOPPING_S)
            return
        lease = self._run_of(message, plan.lease)
        self.context.leases.apply(transitions.begin_later(replace(plan, lease=lease)))
        logger.info("job planned", extra={"lease": lease.key, "run": lease.run})
        self.messages.postpone_until(batch, message, message.due_at)

    def _run_of(self, message: JobMessage, lease: Lease) -> Lease:
        """The row with what belongs to its run; the request is stored beside it."""
        self.context.requests.put(lease.request_ref, message.content)
        return with_next(with_joins(lease, self.context.settings), self.context.settings)

    def claim_and_start(self, claim: Claim, batch: Batch, pace: Pace) -> str | None:
        """Returns the status in which the execution has closed already; None while it runs."""
        lease = with_emission(claim.lease, batch.stage)
        claim = replace(claim, lease=lease)
        self.context.leases.apply(transitions.claim(claim, batch.stage, pace))
        batch.started.append(lease.receive.message_id)
        logger.info(
            "job claimed",
            extra={
                "lease": lease.key,
                "run": lease.run,
                "receive_count": lease.receive.receive_count,
            },
        )
        return self.context.executions.ensure_started(
            lease.id.execution_name, lease.execution_input
        )

    def probe(self, message: JobMessage, lease: Lease, batch: Batch) -> None:
        """The row says RUNNING: start its execution again, with the row's name and input.

        It runs, or starts now because a dispatcher died between claim and start: adopt this
        receive. It has closed without a settle: settle it.
        """
        closed_as = self.context.executions.ensure_started(
            lease.id.execution_name, lease.execution_input
        )
        row = self._adopt(lease, message)
        if closed_as is not None:
            batch.slow.append((message, Closed(lease.id, closed_as)))
            return
        if row is None:
            return
        age_s = (self.context.clock.now() - row.attempt.claimed_at).total_seconds()
        wait_s = beat.interval_s(age_s, self.context.timing)
        self.messages.hold(batch, message, beat.visibility_s(wait_s, 0, self.context.timing))
        logger.info(
            "running job adopted",
            extra={"lease": lease.key, "receive_count": message.receive_count},
        )

    def _adopt(self, lease: Lease, message: JobMessage) -> Lease | None:
        """The row with this receive; None when a later receive of the message was adopted first.

        Then the row has the later receive's handle, and ours no longer holds the message.
        """
        try:
            return self.context.leases.report(transitions.adopt(lease, message))
        except LeaseChangedError as error:
            if (
                error.current is None
                or not error.current.owns(lease.id)
                or not error.current.has_seen(message.message_id, message.receive_count)
            ):
                raise
            logger.info("a later receive was adopted first", extra={"lease": lease.key})
            return None

    def _hold_until_first_beat(self, message: JobMessage, lease: Lease, batch: Batch) -> None:
        """Extend the message where the queue's visibility ends before the first beat."""
        wait_s = lease.input.first_wait_s
        held_s = (self.context.clock.now() - message.received_at).total_seconds()
        if beat.must_extend(wait_s, held_s):
            seconds = beat.visibility_s(wait_s, held_s, self.context.timing)
            self.messages.hold(batch, message, seconds)

    def _is_task_left(self, claim: Claim | PlanRun) -> bool:
        """Whether the previous attempt's task still runs; it is stopped then.

        A released message becomes visible after that task is gone. The message of a job that is
        submitted again may come sooner.
        """
        if claim.replaces is None:
            return False
        task_arn = claim.replaces.attempt.task_arn
        same_message = claim.replaces.receive.message_id == claim.lease.receive.message_id
        if task_arn is None or same_message or claim.replaces.attempt.is_over:
            return False
        why = "Longhaul: the job was submitted again"
        stopped = self.context.tasks.stop(task_arn, claim.replaces.id, why)
        if not stopped.is_gone:
            logger.info(
                "the task of the run before may still run: a new run waits for its end",
                extra={"lease": claim.lease.key, "task": task_arn, "gone_by": stopped.gone_by},
            )
        return not stopped.is_gone
