"""The tasks of every engine that the stack has, as one."""

from collections.abc import Iterator
from itertools import chain

from longhaul.domain import job_run
from longhaul.ports import RunningTask, StoppedTask, Tasks


class EngineTasks:
    """`ports.Tasks`."""

    def __init__(self, *, fargate: Tasks, emr_serverless: Tasks) -> None:
        self._fargate = fargate
        self._emr_serverless = emr_serverless

    def running(self) -> Iterator[RunningTask]:
        return chain(self._fargate.running(), self._emr_serverless.running())

    def stop(self, task_arn: str, reason: str) -> StoppedTask:
        engine = self._fargate if job_run.name_in(task_arn) is None else self._emr_serverless
        return engine.stop(task_arn, reason)
