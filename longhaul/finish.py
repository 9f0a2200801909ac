"""Do what an ended attempt still owes. Settle, dispatcher and sweeper call this; each act can be repeated by anyone, and each is struck off once done."""

from dataclasses import dataclass

from aws_lambda_powertools import Logger

from longhaul.domain.dead_letter import dead_letter, reason_of
from longhaul.domain.errors import LeaseChangedError, VoidCommitError
from longhaul.domain.follow_ons import Arrival, FollowOn, Join, follow_ons, joined
from longhaul.domain.lease import Lease, Owed, State
from longhaul.domain.message import MessageContent
from longhaul.job_logs import stream_of
from longhaul.ports import Clock, Executions, JobQueue, LeaseStore, Publisher, RequestStore
from longhaul.settings import RuntimeSettings

logger = Logger(child=True)


@dataclass(frozen=True)
class Finisher:
    """Brings a row that was written to its end in the world. State first, then SQS: a crash in between leaves the act owed, never the other way round."""

    settings: RuntimeSettings
    clock: Clock
    leases: LeaseStore
    queue: JobQueue
    requests: RequestStore
    publisher: Publisher
    executions: Executions

    def finish(self, lease: Lease) -> Lease:
        """Do what is owed, in order. Answers the row as it is then; what raises stays owed."""
        for owed in lease.owed:
            try:
                self._do(owed, lease)
                lease = self.leases.strike(lease, owed, self.clock.now())
            except VoidCommitError:
                return self._run_again(lease)
            except LeaseChangedError as error:
                return error.current or lease  # somebody else finishes, or a new run has begun: theirs now
        return lease

    def release(self, lease: Lease, seconds: int) -> None:
        """Let the message show again in `seconds`. Without a handle that holds it, it shows by itself when its timeout lapses."""
        if lease.receipt_handle is not None:
            self.queue.set_visibility(self.settings.stage(lease.stage).queue_url, lease.receipt_handle, seconds)

    def settled(self, lease: Lease, retry_in_s: int | None) -> Lease:
        """What follows the write that ended an attempt: release the message, or finish."""
        if lease.state is State.RELEASED:
            self.release(lease, retry_in_s or 0)
            return lease
        return self.finish(lease)

    def _run_again(self, lease: Lease) -> Lease:
        """A committed output is void: its uploads are gone, and nothing of it is visible."""
        try:
            reopened = self.leases.reopen(lease, self.clock.now())
        except LeaseChangedError as error:
            current = error.current
            if current and current.id == lease.id and current.published_at:
                # Published by its runner between our look and now, and its pending list struck off since.
                return self.finish(current)
            return current or lease
        logger.warning("committed output is void: the job runs again", extra={"lease": lease.key})
        self.release(reopened, 0)
        return reopened

    def _do(self, owed: Owed, lease: Lease) -> None:
        stage = self.settings.stage(lease.stage)
        match owed:
            case Owed.PUBLISH:
                if lease.output is None:
                    raise AssertionError(f"{lease.key} owes a publish without a commit")
                if lease.published_at is None:
                    self.publisher.publish(lease.output)
            case Owed.FOLLOW_ONS:
                self._follow_on(lease)
            case Owed.DEAD_LETTER:
                reason = reason_of(lease, self.executions.arn(lease.id.execution_name), self._log_location(lease))
                self.queue.send(stage.dead_letter_queue_url, dead_letter(self.requests.get(lease.request_ref), reason))
            case Owed.DELETE:
                # No handle (after a hand-over), or one that no longer holds the message, is as good: should it come again, the row says that it may go.
                if lease.receipt_handle is not None:
                    self.queue.delete(stage.queue_url, lease.receipt_handle)

    def _follow_on(self, lease: Lease) -> None:
        """Send what follows a success, and start the joins that it completes. Its message stays until every one of them is in its queue."""
        emitted = None
        if lease.output and lease.output.emitted_ref:
            emitted = self.requests.get_emitted(lease.output.emitted_ref)
        by_stage: dict[str, list[str]] = {}
        for each in follow_ons(lease, emitted, self.settings):
            job = each if isinstance(each, FollowOn) else self._arrive(each)
            if job:
                by_stage.setdefault(job.stage, []).append(job.body)
        group_id = self.requests.get(lease.request_ref).group_id if by_stage else None
        for stage, bodies in by_stage.items():
            messages = (MessageContent(body, {}, group_id) for body in bodies)
            self.queue.send_many(self.settings.stage(stage).queue_url, messages)
        logger.info("followed on", extra={"lease": lease.key, "jobs": {name: len(b) for name, b in by_stage.items()}})

    def _arrive(self, arrival: Arrival | Join) -> FollowOn | None:
        """The job that starts because all have arrived; None when some are yet to come."""
        if isinstance(arrival, Join):
            return joined(arrival, {}, self.settings)
        join = arrival.join
        outputs = self.leases.arrive(join.key, join.group.n, join.group.size, arrival.output, self.clock.now())
        return None if outputs is None else joined(join, outputs, self.settings)

    def _log_location(self, lease: Lease) -> str | None:
        """Group and stream of the last attempt's log, the group alone for a job run; None when its task never registered."""
        stream = stream_of(lease)
        if stream is None:
            return self.settings.job_log_group if lease.task_arn else None
        return f"{self.settings.job_log_group}:{stream}"
