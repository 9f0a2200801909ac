"""Running jobs, on whatever engine."""

from collections.abc import Iterator, Mapping

from longhaul.core.lease import AttemptId
from longhaul.core.ports import RunningTask, Tasks
from longhaul.core.verdict import StoppedTask
from longhaul.engines.listed import ENGINES


class AllTasks:
    """`ports.Tasks` of every engine that the stack has, by the engine's name."""

    def __init__(self, engines: Mapping[str, Tasks]) -> None:
        self._engines = engines

    def running(self) -> Iterator[RunningTask]:
        for tasks in self._engines.values():
            yield from tasks.running()

    def stop(self, task_arn: str, attempt: AttemptId, reason: str) -> StoppedTask:
        name = ENGINES.of(task_arn).name
        if name not in self._engines:  # a deploy removed the engine, and what ran on it
            return StoppedTask(is_gone=True)
        return self._engines[name].stop(task_arn, attempt, reason)
