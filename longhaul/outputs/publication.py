"""Make a committed output visible, or find that it never can be.

Uploads that are neither pending nor completed may be gone for good, or S3 is completing them for a
publisher that died: that may take minutes, and no answer of S3 tells the two apart. So they are
looked at twice, half an hour apart, and no function completes an upload in between. What is still
gone then makes the commit void.

    looked   gone: note it        in place? publish        renew the note, complete what is
    ───────────┴──────────────────────┴─────────────────────┬─ missing: still gone? void ───►
               0                                            30 min
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from aws_lambda_powertools import Logger

from longhaul.core import transitions
from longhaul.core.errors import UploadsGoneError, VoidCommitError
from longhaul.core.lease import AttemptId, Lease, State
from longhaul.core.metrics import Metric, StageMetric
from longhaul.core.ports import Context
from longhaul.core.settlement import reopened
from longhaul.core.sweep import Sweep
from longhaul.outputs.pending import Publisher, decide_pending

logger = Logger(child=True)

LOOK_AGAIN_AFTER = timedelta(minutes=30)
"""S3 says "several minutes" of a completion; and clocks differ by up to two."""


@dataclass(frozen=True, kw_only=True)
class Publication:
    """Publishes what ended rows owe, in any function."""

    context: Context
    publisher: Publisher

    def publish(self, lease: Lease, until: datetime | None) -> None:
        """Publish the row's committed output; repeatable.

        Raises:
            UnfinishedError: it is still owed.
            VoidCommitError: it can never become visible.
            LeaseChangedError: another function goes on with it.
        """
        gone_at = lease.attempt.gone_at
        if lease.attempt.output is None:
            raise AssertionError(f"{lease.key} owes a publish without a commit")
        now = self.context.clock.now()
        rests = gone_at is not None and now - gone_at < LOOK_AGAIN_AFTER
        if gone_at is not None and not rests:
            # Before the first completion: if this publisher dies, S3 may be at work again.
            lease = self.context.leases.apply(transitions.note_gone(lease, now))
        try:
            places = lease.places.values()
            self.publisher.publish(lease.id, until, looks_only=rests, places=places)
        except UploadsGoneError as error:
            if gone_at is None:
                self.context.leases.apply(transitions.note_gone(lease, self.context.clock.now()))
                logger.warning("uploads of a committed output are gone", extra={"lease": lease.key})
            elif not rests:
                raise VoidCommitError(str(error)) from error
            raise

    def reopen(self, lease: Lease) -> Lease:
        """Let the job of a void commit run again, or be dead when that was too often.

        Raises:
            LeaseChangedError: it was published after all, or another function came first.
        """
        after = reopened(
            lease, self.context.timing, self.context.leases.aws_time(), self.context.rng
        )
        after = self.context.leases.apply(transitions.reopen(lease, after))
        logger.warning(
            "a committed output is void", extra={"lease": lease.key, "state": after.state.value}
        )
        self.context.metrics.put(_measured(lease, after), stage=lease.stage)
        return after

    def discard(self, attempt: AttemptId) -> None:
        """Remove what the attempt left."""
        self.publisher.discard(attempt)

    def look_after(self, sweep: Sweep) -> None:
        """Abort what failed attempts left pending, and remove the lists with nothing pending.

        One listing when there are none: the lists have a prefix of their own, and their names have
        the attempt.
        """
        for page in sweep.pages(self.publisher.listed()):
            rows = self.context.leases.load_many(attempt.key for attempt in page)
            cleared = []
            for attempt in page:
                with sweep.guard(attempt):
                    row, now = rows.get(attempt.key), self.context.clock.now()
                    decision = decide_pending(attempt, row, self.context.timing, now)
                    if decision == "abort":
                        self.publisher.discard(attempt)
                        sweep.report.discarded += 1
                    if decision != "keep":
                        cleared.append(attempt)
            if cleared:
                with sweep.guard(cleared[0]):
                    self.publisher.strike_off(cleared)


def _measured(before: Lease, after: Lease) -> dict[Metric, float]:
    """What a void commit counts as. It counted as a success when it was settled: that is undone."""
    work_s = (before.ended_at - before.attempt.claimed_at).total_seconds()
    values: dict[Metric, float] = {
        StageMetric.SUCCEEDED: -1,
        StageMetric.INTERRUPTED: 1,
        StageMetric.WASTED: 2 * (work_s - min(before.kept_s, work_s)),
    }
    if after.state is State.DEAD:
        values[StageMetric.DEAD_LETTERED] = 1
    return values
