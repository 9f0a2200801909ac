"""The integrations that wait for an end: `ecs:runTask.sync`, `emr-serverless:startJobRun.sync`.

Step Functions calls the service from a process of its own through the gate, so each call takes time
and can fail. https://docs.aws.amazon.com/step-functions/latest/dg/connect-ecs.html,
https://docs.aws.amazon.com/step-functions/latest/dg/connect-emr-serverless.html
"""

import json
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError

from simulation.aws.ecs.client import FakeEcs, Task
from simulation.aws.emr_serverless.client import FakeEmrServerless, JobRun
from simulation.aws.platform.timeline import Timeline
from simulation.aws.service import Answer
from simulation.aws.stepfunctions.interpreter import Done, Failed, Result, Submitted, Tell

STOPPED_BY = "Stopped by AWS Step Functions"

T = TypeVar("T", Task, JobRun)


class Sync(Generic[T]):
    """`simulation.aws.stepfunctions.interpreter.Integration`: start a thing, and end with it.

    Attributes:
        told_after_s: Seconds from the thing's end until Step Functions notices it.
        tries_to_stop: Called at each cancel: whether the thing is stopped, which is best effort.
        waiting: By the thing's ARN.
    """

    service: ClassVar[str]
    operation: ClassVar[str]
    prefix: ClassVar[str]  # of the names of its errors
    unmodelled: ClassVar[str]  # name of an error that the API model lacks, such as a throttle
    java_name: ClassVar[str]  # the service, for the SDK of Step Functions

    def __init__(self, timeline: Timeline, ended: list[Callable[[T], None]]) -> None:
        self.timeline = timeline
        self.told_after_s: Callable[[T], float] = lambda _thing: 1.0
        self.tries_to_stop: Callable[[], bool] = lambda: True
        self.waiting: dict[str, list[Running[T]]] = {}
        ended.append(self.has_ended)

    def __call__(self, parameters: dict[str, Any], tell: Tell) -> "Running[T]":
        return Running(self, request_of(parameters), tell)

    def start(self, request: dict[str, Any]) -> Answer:
        raise NotImplementedError

    def started(self, answer: Answer) -> T | Failed:
        """What the call has started, which may be over by now."""
        raise NotImplementedError

    def stop(self, thing: T) -> Answer:
        raise NotImplementedError

    def result_of(self, thing: T) -> Result:
        raise NotImplementedError

    def has_ended(self, thing: T) -> None:
        if self.waiting.get(thing.arn):
            self.timeline.after(self.told_after_s(thing), lambda: self._tell(thing))

    def _tell(self, thing: T) -> None:
        for waiting in self.waiting.pop(thing.arn, []):
            waiting.tell(self.result_of(thing))

    def failure_of(self, error: BaseException) -> Failed:
        """The failure of a state whose call failed; errors other than boto3's are raised again."""
        if isinstance(error, BotoCoreError):  # no response
            return Failed(f"{self.prefix}.SdkClientException", str(error))
        if not isinstance(error, ClientError):
            raise error
        code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        name = code if code in _errors_of(self.service, self.operation) else self.unmodelled
        return Failed(
            f"{self.prefix}.{name}",
            f"{message} (Service: {self.java_name}; Status Code: {status}; Error Code: {code};"
            " Request ID: 00000000-0000-0000-0000-000000000000; Proxy: null)",
        )


class Running(Generic[T]):
    """One call that starts a thing, and the thing."""

    def __init__(self, service: Sync[T], request: dict[str, Any], tell: Tell) -> None:
        self.tell = tell
        self._service: Sync[T] = service
        self._is_cancelled = False
        self._started: T | None = None
        service.timeline.spawn(lambda: service.start(request), ended=self._answered)

    def cancel(self) -> None:
        """Stop the thing; if the call has not returned yet, stop what it will start."""
        self._is_cancelled = True
        if self._started is not None:
            waiting = self._service.waiting.get(self._started.arn, [])
            if self in waiting:
                waiting.remove(self)
            self._stop(self._started)

    def _answered(self, error: BaseException | None, answer: Any) -> None:
        service = self._service
        started = service.failure_of(error) if error is not None else service.started(answer)
        if isinstance(started, Failed):
            self.tell(started)
            return
        self._started = started
        if self._is_cancelled:
            self._stop(started)
            return
        self.tell(Submitted())
        service.waiting.setdefault(started.arn, []).append(self)
        if started.is_over:
            service.has_ended(started)

    def _stop(self, thing: T) -> None:
        if self._service.tries_to_stop():
            self._service.timeline.spawn(lambda: self._service.stop(thing), ended=_best_effort)


class RunTaskSync(Sync[Task]):
    service, operation = "ecs", "RunTask"
    prefix, unmodelled, java_name = "ECS", "AmazonECSException", "AmazonECS"

    def __init__(self, timeline: Timeline, ecs: FakeEcs) -> None:
        super().__init__(timeline, ecs.task_ended)
        self._ecs = ecs

    def start(self, request: dict[str, Any]) -> Answer:
        return self._ecs.run_task(**request, startedBy="AWS Step Functions")

    def started(self, answer: Answer) -> Task | Failed:
        if answer["failures"]:
            shown = spelled({"failures": answer["failures"], "tasks": []}, str.upper)
            return Failed("AmazonECS.Unknown", json.dumps(shown))
        (task,) = answer["tasks"]
        return self._ecs.clusters[task["clusterArn"]].tasks[task["taskArn"]]

    def stop(self, thing: Task) -> Answer:
        return self._ecs.stop_task(cluster=thing.cluster_arn, task=thing.arn, reason=STOPPED_BY)

    def description(self, task: Task) -> dict[str, Any]:
        """The task in Step Functions' spelling, with times in epoch milliseconds."""
        shown: dict[str, Any] = spelled(task.described(), str.upper)
        return shown

    def result_of(self, thing: Task) -> Result:
        shown = self.description(thing)
        codes = [container.get("ExitCode") for container in shown.get("Containers", [])]
        if shown.get("StopCode") != "TaskFailedToStart" and all(code == 0 for code in codes):
            return Done(shown)
        return Failed("States.TaskFailed", json.dumps(shown))


class StartJobRunSync(Sync[JobRun]):
    """Its results are those of GetJobRun.

    `EMRServerless.ValidationException` is a real name; that of errors which the API model lacks is
    formed as ECS's.
    """

    service, operation = "emr-serverless", "StartJobRun"
    prefix, unmodelled, java_name = "EMRServerless", "EMRServerlessException", "EMRServerless"

    def __init__(self, timeline: Timeline, emr: FakeEmrServerless) -> None:
        super().__init__(timeline, emr.run_ended)
        self._emr = emr

    def start(self, request: dict[str, Any]) -> Answer:
        return self._emr.start_job_run(**request)

    def started(self, answer: Answer) -> JobRun | Failed:
        return self._emr.run_of(answer["arn"])

    def stop(self, thing: JobRun) -> Answer:
        return self._emr.cancel_job_run(applicationId=thing.application.id, jobRunId=thing.id)

    def result_of(self, thing: JobRun) -> Result:
        shown = spelled(thing.described(), str.upper)
        if thing.state == "SUCCESS":
            return Done(shown)
        return Failed("States.TaskFailed", json.dumps(shown))


def request_of(parameters: dict[str, Any]) -> dict[str, Any]:
    """A state's parameters in the service's own spelling."""
    request: dict[str, Any] = spelled(parameters, str.lower)
    return request


def spelled(value: Any, case: Callable[[str], str]) -> Any:
    """The value with the first letter of its members' names in that case.

    Times become epoch milliseconds.
    """
    match value:
        case dict():
            return {case(name[0]) + name[1:]: spelled(inner, case) for name, inner in value.items()}
        case list():
            return [spelled(inner, case) for inner in value]
        case datetime():
            return int(value.timestamp() * 1000)
        case _:
            return value


def _best_effort(error: BaseException | None, _answer: Any) -> None:
    """The end of a call whose failure changes nothing."""
    if error is not None and not isinstance(error, ClientError | BotoCoreError):
        raise error


@cache
def _errors_of(service: str, operation: str) -> frozenset[str]:
    model = botocore.session.get_session().get_service_model(service).operation_model(operation)
    return frozenset(shape.name for shape in model.error_shapes)
