"""The metrics by name, for handlers, alarms and dashboard, and the lines that carry them.

A metric with the dimension `stage` is paid for once for each stage, so there are few, and none has
a job, a size or a tenant as its dimension. What a job itself measures (`job.metric`) has the
dimensions `stage` and `job`, the name or path of its code.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

_MAX_DIMENSION_CHARS = 250  # of an alarm's description, and of CloudWatch's 1,024


def dimension(job: str) -> str:
    """The dimension `job` of what a job measures: CloudWatch takes ASCII alone."""
    return "".join(each if "!" <= each <= "~" else "?" for each in job)[:_MAX_DIMENSION_CHARS]


class Metric(StrEnum):
    @property
    def unit(self) -> str:
        """CloudWatch's name of the unit."""
        return "Seconds" if self in _SECONDS else "Count"


class StageMetric(Metric):
    """Dimension `stage`: the stage's name."""

    # By the dispatcher, about a batch.
    STARTED = "JobsStarted"
    # By each settle: in dispatcher, settle or sweeper.
    SUCCEEDED = "JobsSucceeded"
    FAILED = "AttemptsFailed"  # ended by the job itself, also for want of memory or disk
    INTERRUPTED = "AttemptsInterrupted"  # ended by the platform
    NOT_PLACED = "AttemptsNotPlaced"  # no task came to be, for whatever reason
    # Seconds from claim to end of such an attempt; of one that succeeded, below zero. A day's sum
    # above zero: more than half of the work that ended that day was wasted.
    WASTED = "WorkWasted"
    DEAD_LETTERED = "JobsDeadLettered"
    # By each beat: seconds left of the lease. Near zero, beats come too late.
    LEASE_LEFT = "LeaseLeft"
    # By the dispatcher for jobs without a slot, and by each sweep for jobs between attempts.
    OLDEST_WAITING = "OldestWaiting"
    # By each sweep.
    BACKLOG = "Backlog"
    FREE_SLOTS = "FreeSlots"
    BLOCKED = "Blocked"  # time with visible messages and free slots, but without a claim
    WITHOUT_BEAT = "LeasesWithoutBeat"
    # Jobs whose message should have been renewed. Also by the dispatcher: messages without a slot
    # that come too rarely.
    NEAR_RETENTION = "NearRetention"
    # By sweeps that find such jobs: for how long AWS has refused tasks, and not for lack of room.
    OLDEST_REFUSED = "OldestRefused"


class NoticeMetric(Metric):
    """Dimension `stage`, of a stage with `notify`."""

    # By whatever ends a job: events about ends that were not taken in time.
    LOST = "NoticesLost"


class SweeperMetric(Metric):
    """Dimension `service`: `sweeper`. Each sweep puts all of them."""

    SWEEPS = "Sweeps"
    REPAIRS = "Repairs"
    OLDEST_OWED = "OldestOwed"  # age of what an ended job still owes after the sweep
    UNREADABLE_ROWS = "UnreadableRows"  # of unfinished jobs, written by another version


_SECONDS = frozenset(
    {
        StageMetric.LEASE_LEFT,
        StageMetric.OLDEST_WAITING,
        StageMetric.OLDEST_REFUSED,
        StageMetric.BLOCKED,
        StageMetric.WASTED,
        SweeperMetric.OLDEST_OWED,
    }
)


class EmfMetrics:
    """`ports.Metrics` in CloudWatch's Embedded Metric Format: lines of the log, without a wait."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def put(self, values: Mapping[Metric, float], **dimensions: str) -> None:
        self._put([(each.value, each.unit, value) for each, value in values.items()], dimensions)

    def put_of_job(self, values: Mapping[str, float], *, stage: str, job: str) -> None:
        found = [(name, "None", value) for name, value in values.items()]
        self._put(found, {"stage": stage, "job": job})

    def _put(self, values: Iterable[tuple[str, str, float]], dimensions: Mapping[str, str]) -> None:
        """Print a line. `values`: name, unit and value of each."""
        # Late: the CDK app reads the names without Powertools.
        from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (  # noqa: PLC0415
            AmazonCloudWatchEMFProvider,
        )

        # A provider for each line: Powertools' `Metrics` shares state between its instances, which
        # would mix the stages of one invocation. Empty `service`: as a dimension it would split a
        # stage's metric by function.
        line = AmazonCloudWatchEMFProvider(namespace=self._namespace, service="")
        for name, text in dimensions.items():
            line.add_dimension(name, text)
        for name, unit, value in values:
            line.add_metric(name, unit, value)
        line.flush_metrics()
