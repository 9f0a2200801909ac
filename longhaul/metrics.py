"""What the handlers measure, by name: the alarms, the dashboard and the handlers know these and no others.

A metric with the dimension `stage` costs once for each stage, so there are few, and none has a job, a size or a tenant as its dimension.
"""

from enum import StrEnum


class Metric(StrEnum):
    @property
    def unit(self) -> str:
        """CloudWatch's name of the unit."""
        return "Seconds" if self in _SECONDS else "Count"


class StageMetric(Metric):
    """Dimension `stage`: the stage's name."""

    # By the dispatcher, about a batch.
    STARTED = "JobsStarted"
    # By whoever settles: dispatcher, settle or sweeper.
    SUCCEEDED = "JobsSucceeded"
    RETRIED = "JobsRetried"
    DEAD_LETTERED = "JobsDeadLettered"
    # By each beat: what was left of the lease when it came. Towards nothing, beats come too late.
    LEASE_LEFT = "LeaseLeft"
    # By the dispatcher about the jobs that found no slot, and by each sweep about those that wait for their next attempt.
    OLDEST_WAITING = "OldestWaiting"
    # By each sweep.
    BACKLOG = "Backlog"
    FREE_SLOTS = "FreeSlots"
    BLOCKED = "Blocked"  # for how long messages have been visible and slots free, and nothing was claimed
    WITHOUT_BEAT = "LeasesWithoutBeat"
    NEAR_RETENTION = "NearRetention"  # jobs whose message SQS is to drop within a day


class SweeperMetric(Metric):
    """Dimension `service`: `sweeper`. Each sweep has them all."""

    SWEEPS = "Sweeps"
    REPAIRS = "Repairs"
    FAILED_REPAIRS = "FailedRepairs"


_SECONDS = frozenset({StageMetric.LEASE_LEFT, StageMetric.OLDEST_WAITING, StageMetric.BLOCKED})
