"""EMR Serverless in memory: an application and its job runs.

Nothing runs in a job run. `drivers`, when set, takes each from state to state with `move` and
`end`.

Applications and job runs of the EMR Serverless fake, and how GetJobRun shows a run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol

from simulation.aws.service import (
    ACCOUNT,
    REGION,
    Answer,
    Gate,
    Pages,
    RefusedError,
    Service,
    known,
    operation,
    page_of,
)

WAITING = ("SUBMITTED", "QUEUED", "PENDING", "SCHEDULED")
"""States of a job run before its driver runs, in order."""

ENDED = ("SUCCESS", "FAILED", "CANCELLED")

_DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."
_SHOWN_DETAILS = 256
"""Characters of `stateDetails`, as people met them."""


@dataclass(eq=False)
class JobRun:
    application: "Application" = field(repr=False)
    id: str
    token: str
    request: Mapping[str, Any]  # StartJobRun's arguments
    created_at: datetime
    updated_at: datetime
    state: str = "SUBMITTED"
    details: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def arn(self) -> str:
        return f"{self.application.arn}/jobruns/{self.id}"

    @property
    def is_over(self) -> bool:
        return self.state in ENDED

    @property
    def options(self) -> dict[str, str]:
        """The configuration in its SparkSubmitParameters, which EMR splits at spaces."""
        submit = self.request["jobDriver"]["sparkSubmit"]
        return options_in(submit.get("sparkSubmitParameters", ""))

    @property
    def environment(self) -> dict[str, str]:
        """The driver's, as far as the request sets it."""
        return {
            name.removeprefix(_DRIVER_ENVIRONMENT): value
            for name, value in self.options.items()
            if name.startswith(_DRIVER_ENVIRONMENT)
        }

    def summary(self) -> Answer:
        return self._shown(id=self.id)

    def described(self) -> Answer:
        more = {
            "jobRunId": self.id,
            "jobDriver": self.request["jobDriver"],
            "executionTimeoutMinutes": self.request.get("executionTimeoutMinutes", 720),
            "tags": {},
            "attempt": 1,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
        }
        return self._shown(**more)

    def _shown(self, **more: Any) -> Answer:
        shown: dict[str, Any] = {
            "applicationId": self.application.id,
            "name": self.request.get("name"),
            "mode": "BATCH",
            "arn": self.arn,
            "createdBy": "arn:aws:sts::123456789012:assumed-role/Longhaul/execution",
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "executionRole": self.request["executionRoleArn"],
            "state": self.state,
            "stateDetails": (self.details or self.state)[:_SHOWN_DETAILS],
            "releaseLabel": self.application.release_label,
            **more,
        }
        return {name: value for name, value in shown.items() if value is not None}


@dataclass(eq=False)
class Application:
    """`vcpu`: the most that all its workers may have. `most_runs`: at once; others are QUEUED."""

    arn: str
    name: str
    release_label: str
    vcpu: int
    most_runs: int
    idle_stop_s: float | None
    created_at: datetime
    state: str = "CREATED"
    runs: dict[str, JobRun] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.arn.rpartition("/")[2]

    def in_states(self, states: tuple[str, ...]) -> list[JobRun]:
        return [each for each in self.runs.values() if each.state in states]


def options_in(parameters: str) -> dict[str, str]:
    """The options of `--conf name=value …`.

    Raises:
        ValueError: the parameters are none of these.
    """
    words = parameters.split()
    if len(words) % 2 or any(word != "--conf" for word in words[::2]):
        raise ValueError(f"not a list of --conf name=value: {parameters}")
    return dict(word.split("=", 1) for word in words[1::2])


_LONGEST_RUN_MINUTES = 10_080  # of a batch job run, from EMR 7.11 on
_IDLE_STOP_MINUTES = 15
_MOST_RUNS = 1_000
_NOT_FOUND = "ResourceNotFoundException"
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
        super().__init__(gate, now)
        self.applications: dict[str, Application] = {}  # by id
        self.drivers: Drivers | None = None
        # Gets StartJobRun's request, and may refuse it.
        self.before_start: Callable[[Mapping[str, Any]], None] = lambda _request: None
        self.run_ended: list[Callable[[JobRun], None]] = []
        self.page_size = 50

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
        if type != "SPARK" or not (autoStartConfiguration or {"enabled": True})["enabled"]:
            raise NotImplementedError("this fake has Spark, and starts by itself")
        del clientToken
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

    def _application(self, id_: str) -> Application:
        return known(self.applications, id_, _NOT_FOUND, f"Application {id_} does not exist", 404)

    def _run(self, application_id: str, id_: str) -> JobRun:
        runs = self._application(application_id).runs
        return known(runs, id_, _NOT_FOUND, f"Job run {id_} does not exist", 404)


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
