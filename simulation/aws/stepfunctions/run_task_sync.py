"""The integration `ecs:runTask.sync`: run a task, wait for its end, stop it when cancelled.

Step Functions calls ECS from a process of its own through the gate, so each call takes time and can
fail. https://docs.aws.amazon.com/step-functions/latest/dg/connect-ecs.html
"""

import json
from typing import TYPE_CHECKING, Any

from simulation.aws.ecs.client import FakeEcs
from simulation.aws.ecs.tasks import Task
from simulation.aws.platform.timeline import Timeline
from simulation.aws.service import Call
from simulation.aws.stepfunctions.integration import Done, Failed, Submitted, Tell
from simulation.aws.stepfunctions.service_calls import best_effort, failure_of, spelled

if TYPE_CHECKING:
    from collections.abc import Callable

UNMODELLED = "AmazonECSException"
"""Step Functions' name for an error that the API model of ECS lacks, such as a throttle."""

STOPPED_BY = "Stopped by AWS Step Functions"


class RunTaskSync:
    """`simulation.aws.stepfunctions.integration.Integration`.

    Attributes:
        told_after_s: Seconds from a task's end until Step Functions notices it.
        tries_to_stop: Called at each cancel: whether the task is stopped, which is best effort.
        description: What Step Functions gets to know of a task that ended. AWS leaves out the
            containers of some that never started.
    """

    def __init__(self, timeline: Timeline, ecs: FakeEcs) -> None:
        self.timeline = timeline
        self.ecs = ecs
        self.told_after_s: Callable[[Task], float] = lambda _task: 1.0
        self.tries_to_stop: Callable[[], bool] = lambda: True
        self.description: Callable[[Task], dict[str, Any]] = described
        self.waiting: dict[str, RunningTask] = {}  # by the task's ARN
        ecs.task_ended.append(self._task_ended)

    def __call__(self, parameters: dict[str, Any], tell: Tell) -> "RunningTask":
        return RunningTask(self, parameters, tell)

    def await_end(self, running: "RunningTask", submitted: dict[str, Any]) -> None:
        """Call it when its task has stopped, which may already be so."""
        self.waiting[submitted["taskArn"]] = running
        task = self.ecs.clusters[submitted["clusterArn"]].tasks[submitted["taskArn"]]
        if task.status == "STOPPED":
            self._task_ended(task)

    def _task_ended(self, task: Task) -> None:
        if task.arn in self.waiting:
            self.timeline.after(self.told_after_s(task), lambda: self._tell(task))

    def _tell(self, task: Task) -> None:
        waiting = self.waiting.pop(task.arn, None)
        if waiting is not None:
            waiting.ended(task)


class RunningTask:
    """One RunTask and its task."""

    def __init__(self, service: RunTaskSync, parameters: dict[str, Any], tell: Tell) -> None:
        self._service = service
        self._tell = tell
        self._cancelled = False
        self._submitted: dict[str, Any] | None = None  # the task as RunTask answered it
        request = {**spelled(parameters, str.lower), "startedBy": "AWS Step Functions"}
        service.timeline.spawn(lambda: service.ecs.run_task(**request), ended=self._answered)

    def cancel(self) -> None:
        """Stop the task; if RunTask has not returned yet, stop the task that it will start."""
        self._cancelled = True
        if self._submitted is not None:
            self._service.waiting.pop(self._submitted["taskArn"], None)
            self._stop(self._submitted)

    def ended(self, task: Task) -> None:
        description = self._service.description(task)
        if _succeeded(description):
            self._tell(Done(description))
        else:
            self._tell(Failed("States.TaskFailed", json.dumps(description)))

    def _answered(self, error: BaseException | None, answer: Any) -> None:
        if error is not None:
            self._tell(
                failure_of(
                    error,
                    Call("ecs", "RunTask", {}),
                    prefix="ECS",
                    unmodelled=UNMODELLED,
                    java_name="AmazonECS",
                )
            )
        elif answer["failures"]:
            shown = spelled({"failures": answer["failures"], "tasks": []}, str.upper)
            self._tell(Failed("AmazonECS.Unknown", json.dumps(shown)))
        else:
            self._await(answer["tasks"][0])

    def _await(self, submitted: dict[str, Any]) -> None:
        self._submitted = submitted
        if self._cancelled:
            self._stop(submitted)
            return
        self._tell(Submitted())
        self._service.await_end(self, submitted)

    def _stop(self, submitted: dict[str, Any]) -> None:
        if self._service.tries_to_stop():
            stop = self._service.ecs.stop_task
            self._service.timeline.spawn(
                lambda: stop(
                    cluster=submitted["clusterArn"], task=submitted["taskArn"], reason=STOPPED_BY
                ),
                ended=best_effort,
            )


def described(task: Task) -> dict[str, Any]:
    """The task in Step Functions' spelling, with times in epoch milliseconds."""
    shown: dict[str, Any] = spelled(task.described(), str.upper)
    return shown


def _succeeded(description: dict[str, Any]) -> bool:
    return description.get("StopCode") != "TaskFailedToStart" and all(
        container.get("ExitCode") == 0 for container in description.get("Containers", [])
    )
