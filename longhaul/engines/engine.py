"""What one engine is to the domain. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longhaul.core.lease import Lease
from longhaul.core.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How Step Functions reports the end of an engine's tasks, and what that means.

    `task_mark`: the part of a row's `task_arn` that tells its tasks from those of other engines.
    `described_by`: the field that tells its task descriptions from those of other engines.
    `errors`: how the errors of the service that starts its tasks begin.
    `after_a_start`: those of them which say that the task has begun.
    `queues`: an accepted task may wait before it runs.
    `has_tables`: its jobs read and write tables.
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
    has_tables: bool
    log_prefix: str | None
    classify: Callable[[Lease, dict[str, Any]], Verdict]
    is_over: Callable[[str, dict[str, Any]], bool] = lambda _task, _said: False
