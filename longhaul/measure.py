"""What a sweep sees of a stage, as metrics.

Each value is an age or a number of now, found out in one place from the table and the queue. An alarm on such a value needs no second metric that might be
late, and no memory of its own: how long a thing has lasted is in the value.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from longhaul.domain.lease import Lease, State
from longhaul.metrics import Metric, StageMetric
from longhaul.ports import JobQueue, LeaseStore
from longhaul.settings import RuntimeSettings, Stage


class StageWatch:
    """Looks over the shoulder of one sweep."""

    def __init__(self, settings: RuntimeSettings, stage: Stage, now: datetime) -> None:
        self._settings = settings
        self._stage = stage
        self._now = now
        self._oldest_waiting_s = 0.0
        self._without_beat = 0
        self._near_retention = 0

    def over(self, leases: Iterable[Lease]) -> Iterator[Lease]:
        """The same leases, looked at before anything is done about them."""
        for lease in leases:
            self._look_at(lease)
            yield lease

    def values(self, queue: JobQueue, leases: LeaseStore) -> dict[Metric, float]:
        """All of the stage's values, once its leases have been looked over. Raises what the two calls about queue and slots raise."""
        backlog = queue.backlog(self._stage.queue_url)
        return {
            StageMetric.BACKLOG: backlog,
            StageMetric.FREE_SLOTS: leases.free_slots(self._stage, self._now),
            StageMetric.BLOCKED: leases.blocked_s(self._stage, waiting=backlog > 0, now=self._now),
            StageMetric.OLDEST_WAITING: self._oldest_waiting_s,
            StageMetric.WITHOUT_BEAT: self._without_beat,
            StageMetric.NEAR_RETENTION: self._near_retention,
        }

    def _look_at(self, lease: Lease) -> None:
        grace = timedelta(seconds=self._settings.lease.visibility_margin_s)
        if lease.is_overdue(self._now, grace):
            self._without_beat += 1
        if lease.state is State.RELEASED:
            # Not since its back-off was over: a copy of a lost message puts that off.
            waited = self._now - (lease.settled_at or lease.claimed_at)
            self._oldest_waiting_s = max(self._oldest_waiting_s, waited.total_seconds())
        if (
            not lease.state.is_terminal
            and lease.sent_at
            and (self._now - lease.sent_at).total_seconds() >= self._settings.near_retention_s
        ):
            self._near_retention += 1
