"""EMR Serverless in memory: an application and its job runs.

Nothing runs in a job run. `drivers`, when set, takes each from state to state with `move` and
`end`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any, ClassVar, Protocol

from simulation.aws.emr_serverless.job_runs import ENDED, WAITING, Application, JobRun, options_in
from simulation.aws.service import (
    ACCOUNT,
    REGION,
    Answer,
    Gate,
    Pages,
    RefusedError,
    Service,
    operation,
    page_of,
)

_LONGEST_RUN_MINUTES = 10_080  # of a batch job run, from EMR 7.11 on
_IDLE_STOP_MINUTES = 15
_MOST_RUNS = 1_000
_VCPU = " vCPU"
# "Option 'spark.master' is not supported", as people met it.
_UNSUPPORTED = ("spark.master", "spark.submit.deployMode")


class Drivers(Protocol):
    """What runs in the job runs."""

    def accepted(self, run: JobRun) -> None:
        """StartJobRun accepted the job run, which is SUBMITTED."""

    def cancelled(self, run: JobRun) -> None:
        """The job run is CANCELLING, by a call or because its time is up."""


class FakeEmrServerless(Service):
    service = "emr-serverless"
    paginators: ClassVar[Pages] = {"list_job_runs": (("nextToken", "nextToken"),)}

    def __init__(self, gate: Gate, now: Callable[[], datetime]) -> None:
        super().__init__(gate)
        self.applications: dict[str, Application] = {}  # by id
        self.drivers: Drivers | None = None
        # Gets StartJobRun's request, and may refuse it.
        self.before_start: Callable[[Mapping[str, Any]], None] = lambda _request: None
        self.run_ended: list[Callable[[JobRun], None]] = []
        self.page_size = 50
        self._now = now
        self._ids = count(1)

    def move(self, run: JobRun, state: str) -> None:
        """The job run is in the next state; an end and a cancel keep theirs."""
        if run.is_over or run.state == "CANCELLING":
            return
        run.state, run.updated_at = state, self._now()
        if state == "RUNNING":
            run.started_at = self._now()

    def end(self, run: JobRun, state: str, details: str = "") -> None:
        """The job run has ended; a second end changes nothing."""
        if run.is_over:
            return
        run.state, run.details = state, details
        run.updated_at = run.ended_at = self._now()
        for listener in self.run_ended:
            listener(run)

    def run_of(self, arn: str) -> JobRun:
        _, application, _, run = arn.rsplit("/", 3)
        return self.applications[application].runs[run]

    @operation
    def create_application(
        self,
        *,
        name: str,
        releaseLabel: str,
        type: str,  # noqa: A002 - the API's name
        clientToken: str,
        maximumCapacity: Mapping[str, str],
        autoStartConfiguration: Mapping[str, Any] | None = None,
        autoStopConfiguration: Mapping[str, Any] | None = None,
        schedulerConfiguration: Mapping[str, Any] | None = None,
    ) -> Answer:
        del clientToken
        if type != "SPARK":
            raise RefusedError("ValidationException", f"Unsupported application type {type}")
        stop = {"enabled": True, "idleTimeoutMinutes": _IDLE_STOP_MINUTES} | dict(
            autoStopConfiguration or {}
        )
        id_ = f"00f{next(self._ids):013d}"
        found = Application(
            arn=f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/{id_}",
            name=name,
            release_label=releaseLabel,
            vcpu=int(maximumCapacity["cpu"].removesuffix(_VCPU)),
            most_runs=(schedulerConfiguration or {}).get("maxConcurrentRuns", _MOST_RUNS),
            starts_by_itself=(autoStartConfiguration or {}).get("enabled", True),
            idle_stop_s=60.0 * stop["idleTimeoutMinutes"] if stop["enabled"] else None,
            created_at=self._now(),
        )
        self.applications[id_] = found
        return {"applicationId": id_, "name": name, "arn": found.arn}

    @operation
    def get_application(self, *, applicationId: str) -> Answer:
        found = self._application(applicationId)
        return {
            "application": {
                "applicationId": found.id,
                "name": found.name,
                "arn": found.arn,
                "releaseLabel": found.release_label,
                "type": "SPARK",
                "state": found.state,
                "createdAt": found.created_at,
                "updatedAt": found.created_at,
            }
        }

    @operation
    def start_job_run(
        self, *, applicationId: str, clientToken: str, executionRoleArn: str, **request: Any
    ) -> Answer:
        """The same token gives the same job run, also when that has ended."""
        application = self._application(applicationId)
        whole = {"executionRoleArn": executionRoleArn, **request}
        _check_start(whole)
        for run in application.runs.values():
            if run.token == clientToken:
                if run.request != whole:
                    raise RefusedError(
                        "ConflictException",
                        "The client token was used with other parameters.",
                        status=409,
                    )
                return _started(run)
        self.before_start(whole)
        self._check_state(application)
        now = self._now()
        run = JobRun(application, f"00f{next(self._ids):013d}", clientToken, whole, now, now)
        application.runs[run.id] = run
        if self.drivers is not None:
            self.drivers.accepted(run)
        return _started(run)

    @operation
    def get_job_run(self, *, applicationId: str, jobRunId: str) -> Answer:
        return {"jobRun": self._run(applicationId, jobRunId).described()}

    @operation
    def cancel_job_run(self, *, applicationId: str, jobRunId: str) -> Answer:
        """The job run is CANCELLING until its workers are gone. One that is stays so."""
        run = self._run(applicationId, jobRunId)
        if run.is_over:
            raise RefusedError(
                "ValidationException",
                f"Job run {jobRunId} is in state {run.state} and cannot be cancelled.",
            )
        self.cancel(run)
        return {"applicationId": applicationId, "jobRunId": jobRunId}

    def cancel(self, run: JobRun) -> None:
        if run.state != "CANCELLING" and not run.is_over:
            run.state, run.updated_at = "CANCELLING", self._now()
            if self.drivers is not None:
                self.drivers.cancelled(run)

    @operation
    def list_job_runs(
        self,
        *,
        applicationId: str,
        states: Sequence[str] = (),
        maxResults: int | None = None,
        nextToken: str | None = None,
    ) -> Answer:
        """With several states the runs are grouped by state.

        A page is of its own time: a job run that changes its state meanwhile may be on two pages
        or on none.
        """
        application = self._application(applicationId)
        order = (*WAITING, "RUNNING", "CANCELLING", *ENDED)
        shown = [
            run.summary()
            for state in order
            if not states or state in states
            for run in application.in_states((state,))
        ]
        size = min(maxResults or self.page_size, self.page_size)
        return page_of("jobRuns", shown, nextToken, size)

    def _check_state(self, application: Application) -> None:
        if application.state in ("STOPPING", "TERMINATED"):
            # Which error, AWS does not say; this is the one that StartJobRun has for it.
            raise RefusedError(
                "ConflictException",
                f"Application {application.id} is in state {application.state}.",
                status=409,
            )
        if application.state != "STARTED" and not application.starts_by_itself:
            raise RefusedError(
                "ValidationException", f"Application {application.id} is not started."
            )

    def _application(self, id_: str) -> Application:
        if id_ not in self.applications:
            raise RefusedError(
                "ResourceNotFoundException", f"Application {id_} does not exist", status=404
            )
        return self.applications[id_]

    def _run(self, application_id: str, id_: str) -> JobRun:
        run = self._application(application_id).runs.get(id_)
        if run is None:
            raise RefusedError(
                "ResourceNotFoundException", f"Job run {id_} does not exist", status=404
            )
        return run


def _started(run: JobRun) -> Answer:
    return {"applicationId": run.application.id, "jobRunId": run.id, "arn": run.arn}


def _check_start(request: Mapping[str, Any]) -> None:
    known = {"executionRoleArn", "jobDriver", "executionTimeoutMinutes", "name"}
    if unknown := request.keys() - known:
        raise TypeError(f"StartJobRun: this fake does not know {unknown}")
    minutes = request.get("executionTimeoutMinutes", 720)
    if not 0 < minutes <= _LONGEST_RUN_MINUTES:
        raise RefusedError(
            "ValidationException",
            f"executionTimeoutMinutes must be from 1 to {_LONGEST_RUN_MINUTES}, not {minutes}",
        )
    submit = request["jobDriver"]["sparkSubmit"]
    try:
        options = options_in(submit.get("sparkSubmitParameters", ""))
    except ValueError as error:
        raise RefusedError("ValidationException", str(error)) from None
    for option in _UNSUPPORTED:
        if option in options:
            raise RefusedError("ValidationException", f"Option '{option}' is not supported")
