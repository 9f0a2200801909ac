"""One beat of an attempt's heartbeat: load the row, decide, extend, write."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict

from aws_lambda_powertools import Logger

from longhaul.core import beat, transitions
from longhaul.core.beat import End, Extend, HandOver, Kill, decide_beat
from longhaul.core.errors import LeaseChangedError
from longhaul.core.lease import AttemptId, Lease, State
from longhaul.core.metrics import StageMetric
from longhaul.core.ports import Context

logger = Logger(child=True)


class BeatResult(TypedDict):
    """What the state machine does next.

    It waits `wait_s` seconds, ends the branch, or fails it with the error of that name.
    """

    next: Literal["wait", "end", "JobStalled", "JobCancelled", "LeaseLost"]
    wait_s: int
    cause: str


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    context: Context

    def beat(self, attempt: AttemptId) -> BeatResult:
        """Extend the lease of a job that lives.

        Errors of AWS are raised: the state machine retries, then skips the beat. Neither harms the
        job.
        """
        lease = self.context.leases.load(attempt.key)
        now = self.context.clock.now()
        decision = decide_beat(lease, attempt, self.context.timing, now)
        if isinstance(decision, Kill):
            logger.warning(
                "beat ends the job", extra={"reason": decision.reason, "cause": decision.cause}
            )
            return BeatResult(next=decision.reason, wait_s=0, cause=decision.cause)
        # Without a row the decision is always a Kill; the type checker cannot know that.
        if isinstance(decision, End) or lease is None:
            return BeatResult(next="end", wait_s=0, cause="")
        if expires_at := lease.attempt.lease_expires_at:
            left_s = (expires_at - now).total_seconds()
            self.context.metrics.put({StageMetric.LEASE_LEFT: left_s}, stage=lease.stage)
        if isinstance(decision, Extend):
            return self._extend(lease, decision)
        return self._hand_over(lease, decision)

    def _extend(self, lease: Lease, decision: Extend) -> BeatResult:
        handle = decision.receipt_handle
        if handle is not None:
            visibility = self.context.queue.set_visibility(
                self.context.settings.stage_or_removed(lease.stage).queue_url,
                handle,
                decision.visibility_s,
            )
            if visibility == "beyond_limit":
                return self._hand_over(lease, HandOver(handle, decision.wait_s))
            if visibility == "not_held":
                # The visibility lapsed, or the message was received again: the dispatcher finds
                # this live lease and adopts the receive. The job runs on.
                logger.info("the handle no longer holds the message", extra={"lease": lease.key})
        now = self.context.clock.now()
        try:
            self.context.leases.report(
                transitions.beat(lease, now, now + timedelta(seconds=decision.visibility_s))
            )
        except LeaseChangedError as error:
            self._undo(lease, handle, error.current)
            return BeatResult(next="end", wait_s=0, cause="")
        return BeatResult(next="wait", wait_s=decision.wait_s, cause="")

    def _hand_over(self, lease: Lease, decision: HandOver) -> BeatResult:
        """Clear the handle, then make the message visible.

        The dispatcher receives it, finds the live lease, and adopts the new receive.
        """
        stage = self.context.settings.stage_or_removed(lease.stage)
        if stage.is_removed:  # its queue is gone: keep up the row alone
            visibility_s = beat.visibility_s(decision.wait_s, 0, self.context.timing)
            return self._extend(lease, Extend(None, visibility_s, decision.wait_s))
        try:
            self.context.leases.report(transitions.hand_over(lease.id, decision.receipt_handle))
        except LeaseChangedError:
            # It was adopted or settled a moment ago: the next beat decides.
            return BeatResult(next="wait", wait_s=self.context.timing.beat_floor_s, cause="")
        self.context.queue.set_visibility(stage.queue_url, decision.receipt_handle, 0)
        return BeatResult(next="wait", wait_s=decision.wait_s, cause="")

    def _undo(self, lease: Lease, handle: str | None, current: Lease | None) -> None:
        """The attempt settled while this beat extended its message: restore the back-off.

        Without that the retry waits for our extension. Only while the row still has this handle: a
        newer one belongs to a later receive.
        """
        if current is None or handle is None or current.receive.receipt_handle != handle:
            return
        if current.state is State.RELEASED and current.retry_at and current.settled_at:
            # Restore the full back-off: `retry_at` was written by settle's clock, so the elapsed
            # part is unknown.
            seconds = round((current.retry_at - current.settled_at).total_seconds())
            self.context.queue.set_visibility(
                self.context.settings.stage_or_removed(lease.stage).queue_url, handle, seconds
            )
