"""What the core knows of the engines on which jobs run. Pure.

Each engine says what its tasks are in a folder of its own (`longhaul/engines`), and `wiring` hands
all of them over. What a request may ask for stands here: it is known where no engine is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from longhaul.core.lease import Attempt, Lease
from longhaul.core.verdict import Verdict

TINY: Final = "tiny"
"""The size whose jobs run in a Lambda function, and no others."""

TINY_TIMEOUT_S: Final = 840
"""The longest timeout of a tiny job: a minute is left for the runner to end and to say why."""


def engine_for(size: str, engine: str) -> str:
    """The engine that runs jobs of that size: Lambda and Fargate share the sizes of one machine."""
    if size == TINY:
        return "lambda"
    return "fargate" if engine == "lambda" else engine


def has_tables(engine: str) -> bool:
    """Whether jobs on that engine read and write tables."""
    return engine != "emr-serverless"  # drivers lack what tables need


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How Step Functions reports the end of an engine's tasks, and what that means.

    `task_mark`: the part of a row's `task_arn` that tells its tasks from those of other engines.
    `described_by`: the field that tells its task descriptions from those of other engines.
    `errors`: how the errors of the service that starts its tasks begin.
    `after_a_start`: those of them which say that the task has begun.
    `queues`: an accepted task may wait before it runs.
    `log_prefix`: how the log stream of a task begins that ends with its id; None: it is found by
    what is in it.
    `is_over`: whether a description proves that the task of this name has ended, with all its
    processes. For engines that cannot be asked later.
    """

    name: str
    task_mark: str
    described_by: str
    errors: tuple[str, ...]
    after_a_start: tuple[str, ...] = ()
    queues: bool
    log_prefix: str | None
    classify: Callable[[Lease, dict[str, Any]], Verdict]
    is_over: Callable[[str, dict[str, Any]], bool] = lambda _task, _said: False


@dataclass(frozen=True)
class Engines:
    """All engines. A task that is of none of them is one of the first."""

    all: tuple[Engine, ...]

    def of(self, task_ref: str) -> Engine:
        """The engine on which the task of a row's `task_arn` runs."""
        return next((each for each in self.all if each.task_mark in task_ref), self.all[0])

    def describing(self, task: dict[str, Any]) -> Engine:
        """The engine of a task that Step Functions describes so."""
        return next((each for each in self.all if each.described_by in task), self.all[0])

    def log_stream(self, attempt: Attempt) -> str | None:
        """The log stream of the attempt's task.

        None when its task has not registered, and on an engine whose streams are found by what is
        in them.
        """
        if attempt.task_arn is None:
            return None
        prefix = self.of(attempt.task_arn).log_prefix
        return prefix and prefix + attempt.task_arn.rpartition("/")[2]
