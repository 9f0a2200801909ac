"""How far Spark is. Imports no Spark: jobs without it are reported in the same way."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StageCount:
    id: int
    done: int
    total: int


@dataclass(frozen=True)
class SparkSample:
    """How far Spark is.

    `done` and `total` count the tasks known so far, `active` has the stages that run now. Rows are
    those of ended tasks: a running task reports its rows at its end.
    """

    done: int = 0
    total: int = 0
    active: tuple[StageCount, ...] = ()
    rows_read: int = 0
    rows_written: int = 0
    runs_elsewhere: bool = False
    """Tasks run on executors, whose CPU time cannot be seen from here.

    Measured: Spark's heartbeats showed nothing of a Python task that worked for half a minute.
    """
    waits_for_executors: bool = False
    """There is work, and no executor for it: the platform has not provided one yet."""
