"""One beat of an attempt's heartbeat: load the row, decide, extend, look again."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict

from aws_lambda_powertools import Logger

from longhaul.domain.beat import End, Extend, HandOver, Kill, decide_beat
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.lease import AttemptId, Lease, State
from longhaul.metrics import StageMetric
from longhaul.ports import Clock, JobQueue, LeaseStore, Metrics
from longhaul.settings import RuntimeSettings

logger = Logger(child=True)


class BeatAnswer(TypedDict):
    """What the state machine does next: wait `wait_s` seconds, end the branch, or fail it with the error of that name."""

    next: Literal["wait", "end", "JobStalled", "JobCancelled", "LeaseLost"]
    wait_s: int
    cause: str


@dataclass(frozen=True)
class Heartbeat:
    settings: RuntimeSettings
    clock: Clock
    leases: LeaseStore
    queue: JobQueue
    metrics: Metrics

    def beat(self, attempt: AttemptId) -> BeatAnswer:
        """Extend the lease of a job that lives. Errors of AWS are raised: the state machine tries again, then skips the beat; neither harms the job."""
        lease = self.leases.load(attempt.key)
        now = self.clock.now()
        decision = decide_beat(lease, attempt, self.settings.lease, now)
        if isinstance(decision, Kill):
            logger.warning("beat ends the job", extra={"reason": decision.reason, "cause": decision.cause})
            return BeatAnswer(next=decision.reason, wait_s=0, cause=decision.cause)
        if isinstance(decision, End) or lease is None:  # no row is always a Kill; the type checker cannot know
            return BeatAnswer(next="end", wait_s=0, cause="")
        if lease.lease_expires_at:
            left_s = (lease.lease_expires_at - now).total_seconds()
            self.metrics.put({StageMetric.LEASE_LEFT: left_s}, stage=lease.stage)
        if isinstance(decision, Extend):
            return self._extend(lease, decision)
        return self._hand_over(lease, decision)

    def _extend(self, lease: Lease, decision: Extend) -> BeatAnswer:
        handle = decision.receipt_handle
        if handle is not None:
            answer = self.queue.set_visibility(
                self.settings.stage(lease.stage).queue_url, handle, decision.visibility_s
            )
            if answer == "beyond_limit":
                return self._hand_over(lease, HandOver(handle, decision.wait_s))
            if answer == "not_held":
                # The visibility lapsed or the message was received anew: whoever receives it finds this live lease and adopts. The job never notices.
                logger.info("the handle no longer holds the message", extra={"lease": lease.key})
        now = self.clock.now()
        try:
            self.leases.beat(lease, now, now + timedelta(seconds=decision.visibility_s))
        except LeaseChangedError as error:
            self._undo(lease, handle, error.current)
            return BeatAnswer(next="end", wait_s=0, cause="")
        return BeatAnswer(next="wait", wait_s=decision.wait_s, cause="")

    def _hand_over(self, lease: Lease, decision: HandOver) -> BeatAnswer:
        """Forget the handle, then show the message: the dispatcher receives it, finds the live lease, and adopts the new receive."""
        try:
            self.leases.hand_over(lease.id, decision.receipt_handle)
        except LeaseChangedError:
            # Adopted or settled a moment ago: the next beat sees which.
            return BeatAnswer(next="wait", wait_s=self.settings.lease.beat_floor_s, cause="")
        self.queue.set_visibility(self.settings.stage(lease.stage).queue_url, decision.receipt_handle, 0)
        return BeatAnswer(next="wait", wait_s=decision.wait_s, cause="")

    def _undo(self, lease: Lease, handle: str | None, current: Lease | None) -> None:
        """The attempt settled while this beat extended its message: give a released message its back-off again, else the retry waits for our extension.

        Only with the handle that the row still has: with a newer one the message is somebody else's.
        """
        if current is None or handle is None or current.receipt_handle != handle or not current.has_settled(lease.id):
            return
        if current.state is State.RELEASED and current.retry_at and current.settled_at:
            # All of it: that was a moment ago, and how long a moment, only the settle's own clock could say.
            seconds = round((current.retry_at - current.settled_at).total_seconds())
            self.queue.set_visibility(self.settings.stage(lease.stage).queue_url, handle, seconds)
