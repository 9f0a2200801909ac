"""The integration `emr-serverless:startJobRun.sync`: start a job run, and end with it.

As `run_task_sync`: the calls are made by a process of Step Functions' own. Its answers are those of
GetJobRun, whose job run is asked for when an event says that it has ended.
https://docs.aws.amazon.com/step-functions/latest/dg/connect-emr-serverless.html
"""

import json
from typing import TYPE_CHECKING, Any

from simulation.aws.emr_serverless.client import FakeEmrServerless
from simulation.aws.emr_serverless.job_runs import JobRun
from simulation.aws.platform.timeline import Timeline
from simulation.aws.service import Call
from simulation.aws.stepfunctions.integration import Done, Failed, Submitted, Tell
from simulation.aws.stepfunctions.service_calls import best_effort, failure_of, spelled

if TYPE_CHECKING:
    from collections.abc import Callable

UNMODELLED = "EMRServerlessException"
"""The name of an error that the API model lacks. `EMRServerless.ValidationException` is a real
one; this one is formed as ECS's."""


class StartJobRunSync:
    """`simulation.aws.stepfunctions.integration.Integration`.

    Attributes:
        told_after_s: Seconds from a job run's end until Step Functions notices it.
        tries_to_cancel: Called at each cancel: whether the run is cancelled, which is best effort.
    """

    def __init__(self, timeline: Timeline, emr: FakeEmrServerless) -> None:
        self.timeline = timeline
        self.emr = emr
        self.told_after_s: Callable[[JobRun], float] = lambda _run: 1.0
        self.tries_to_cancel: Callable[[], bool] = lambda: True
        self.waiting: dict[str, list[RunningJobRun]] = {}  # by the job run's ARN
        emr.run_ended.append(self._run_ended)

    def __call__(self, parameters: dict[str, Any], tell: Tell) -> "RunningJobRun":
        return RunningJobRun(self, parameters, tell)

    def await_end(self, running: "RunningJobRun", arn: str) -> None:
        """Call it when its job run has ended, which may already be so."""
        self.waiting.setdefault(arn, []).append(running)
        run = self.emr.run_of(arn)
        if run.is_over:
            self._run_ended(run)

    def forget(self, running: "RunningJobRun", arn: str) -> None:
        if running in self.waiting.get(arn, []):
            self.waiting[arn].remove(running)

    def _run_ended(self, run: JobRun) -> None:
        if self.waiting.get(run.arn):
            self.timeline.after(self.told_after_s(run), lambda: self._tell(run))

    def _tell(self, run: JobRun) -> None:
        for waiting in self.waiting.pop(run.arn, []):
            waiting.ended(run)


class RunningJobRun:
    """One StartJobRun and its job run."""

    def __init__(self, service: StartJobRunSync, parameters: dict[str, Any], tell: Tell) -> None:
        self._service = service
        self._tell = tell
        self._is_cancelled = False
        self._started: dict[str, Any] | None = None  # what StartJobRun answered
        request = spelled(parameters, str.lower)
        service.timeline.spawn(lambda: service.emr.start_job_run(**request), ended=self._answered)

    def cancel(self) -> None:
        """Cancel the job run; if StartJobRun has not returned yet, the one that it will start."""
        self._is_cancelled = True
        if self._started is not None:
            self._service.forget(self, self._started["arn"])
            self._cancel(self._started)

    def ended(self, run: JobRun) -> None:
        description = spelled(run.described(), str.upper)
        if run.state == "SUCCESS":
            self._tell(Done(description))
        else:
            self._tell(Failed("States.TaskFailed", json.dumps(description)))

    def _answered(self, error: BaseException | None, answer: Any) -> None:
        if error is not None:
            call = Call("emr-serverless", "StartJobRun", {})
            self._tell(
                failure_of(
                    error,
                    call,
                    prefix="EMRServerless",
                    unmodelled=UNMODELLED,
                    java_name="EMRServerless",
                )
            )
            return
        self._started = answer
        if self._is_cancelled:
            self._cancel(answer)
            return
        self._tell(Submitted())
        self._service.await_end(self, answer["arn"])

    def _cancel(self, started: dict[str, Any]) -> None:
        if self._service.tries_to_cancel():
            cancel = self._service.emr.cancel_job_run
            self._service.timeline.spawn(
                lambda: cancel(
                    applicationId=started["applicationId"], jobRunId=started["jobRunId"]
                ),
                ended=best_effort,
            )
