"""EMR Serverless at work: its application starts and stops, and job runs get their drivers.

All workers share the application's vCPU. A driver that gets none waits, or its job run fails; AWS
says which of the two only for some cases. A driver without executors waits for them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from longhaul.core.lease import AttemptId
from longhaul.engines.emr_serverless.ends import reference
from longhaul.runner.io.work_area import BucketArea
from longhaul.runner.io.written import Folder, S3Folder
from simulation.aws.emr_serverless.client import Application, JobRun
from simulation.aws.platform.containers import check_role
from simulation.aws.platform.job_process import JobProcess, attempt_in
from simulation.aws.platform.parts import MARKER
from simulation.aws.service import Gate, RefusedError
from simulation.worlds.endings import EMR_FAULTS
from simulation.worlds.plan import Fault
from simulation.worlds.randomness import chosen, unit

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from simulation.aws.platform.timeline import Event
    from simulation.worlds.world import World

_APPLICATION_IS_FULL = (
    "Job failed to start: ApplicationMaxCapacityExceededException: Worker could not be allocated as"
    " the application has exceeded maximumCapacity settings: [cpu: 64 vCPU]"
)
_ACCOUNT_IS_FULL = (
    "Job failed to start: the worker could not be allocated as the account has reached the service"
    " limit on the maximum vCPU it can use concurrently."
)
_NO_ROOM = (_APPLICATION_IS_FULL, _ACCOUNT_IS_FULL)
_LOST = "Job failed: the worker of the Spark driver was lost."
_LAUNCH_FAULTS = (*_NO_ROOM, _LOST)
_NO_RIGHT = (
    (
        "AccessDeniedException",
        "User: longhaul is not authorized to perform: iam:PassRole on resource: role/JobRole",
    ),
    (
        "ValidationException",
        "Could not assume runtime role JobRole because it does not exist or lacks the trust.",
    ),
    ("ResourceNotFoundException", "Application 00f0000000000001 does not exist"),
)
_NO_CODE = (
    'Exception in thread "main" java.nio.file.AccessDeniedException: s3://assets/runner.py: Access'
    " Denied (Service: Amazon S3; Status Code: 403; Error Code: AccessDenied"
)
"""The last exception of a driver whose role may not fetch the entry point, or its archives."""

_ENDED = "Job failed, please check complete logs in configured logging destination. ExitCode: {}."
_LAST_WORDS = " Last few exceptions: {}"
_FULL_MEMORY = (
    "Worker has been killed as memory usage exceeded configured memory size, consider increasing"
    " memory size"
)
_CANCELLED = "Job run was cancelled."
_CANCEL_FAULTS = ("slow", "ends")
_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
_LOOK_S = 30.0
_HALF = 0.5


class Drivers:
    """`simulation.aws.emr_serverless.client.Drivers`, of one application."""

    def __init__(
        self,
        world: "World",
        application: Application,
    ) -> None:
        self.world = world
        self.emr = world.aws.emr_serverless
        self.timeline = world.timeline
        self.s3 = copy(world.aws.s3)  # as executors call it: no call of theirs is seen, or fails
        self.s3.gate = Gate()
        self._application = application
        self._drivers: dict[str, Driver] = {}  # by the job run's ARN
        self._counts: Counter[str] = Counter()
        self._vcpu: dict[str, int] = {}  # of a job run's workers, by their owner
        self._idle: Event | None = None
        self.emr.drivers = self
        self.emr.before_start = self._before_start
        self.emr.run_ended.append(self._run_ended)

    def accepted(self, run: JobRun) -> None:
        attempt = attempt_in(run.environment)
        label = self.world.attempt_label(attempt.key, attempt.attempt)
        self._counts[label] += 1
        driver = Driver(self, run, attempt, label, f"driver@{label}.{self._counts[label]}")
        self._drivers[run.arn] = driver
        self.world.containers.runs(driver)
        self._wake()
        minutes = run.request.get("executionTimeoutMinutes", 720)
        driver.later(60.0 * minutes, lambda: self.emr.cancel(run))
        driver.later(0.5 + driver.host.rng.random(), self._schedule)

    def cancelled(self, run: JobRun) -> None:
        self._drivers[run.arn].cancelled()

    def take(self, owner: str, vcpu: int) -> bool:
        """Give a worker its vCPU, if the application and the account have as many left."""
        if self.world.injector.is_out("capacity"):
            return False
        if sum(self._vcpu.values()) + vcpu > self._application.vcpu:
            self.world.injector.note(Fault(owner, 0, "no vCPU"))
            return False
        self._vcpu[owner] = vcpu
        return True

    def free_vcpu(self) -> int:
        return self._application.vcpu - sum(self._vcpu.values())

    def give_back(self, owner: str) -> None:
        self._vcpu.pop(owner, None)

    def _before_start(self, request: Mapping[str, Any]) -> None:
        stage = str(request["name"]).partition("#")[0]
        if self.world.injector.lacks_right(stage):
            site = f"no right:{request['name']}"
            refusal = chosen(self.world.plan.seed, site, (*_NO_RIGHT, None))
            if refusal is not None:  # else the job's role lacks a right, and not the machine's
                raise RefusedError(*refusal)
        check_role(self.world, request["executionRoleArn"], stage)
        if self._application.state == "STOPPING":
            self.world.injector.note(Fault("application", 0, "stopping"))

    def _wake(self) -> None:
        """An application without job runs for a while stops, and starts with the next one."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._application.state in ("CREATED", "STOPPED"):
            self._application.state = "STARTING"
            seconds = 20 + 100 * unit(self.world.plan.seed, f"starts:{self.timeline.clock.ms}")
            self.timeline.after(seconds, self._started)

    def _started(self) -> None:
        self._application.state = "STARTED"
        self._schedule()

    def _schedule(self) -> None:
        """Take job runs on, in their order."""
        application = self._application
        for run in application.in_states(("SUBMITTED", "QUEUED", "PENDING")):
            if application.state != "STARTED":
                self.emr.move(run, "PENDING")
            elif len(application.in_states(("SCHEDULED", "RUNNING"))) >= application.most_runs:
                self.emr.move(run, "QUEUED")
            else:
                self.emr.move(run, "SCHEDULED")
                self._drivers[run.arn].launch()

    def _run_ended(self, _run: JobRun) -> None:
        self._schedule()
        application = self._application
        if all(each.is_over for each in application.runs.values()):
            if self._idle is not None:
                self._idle.cancel()
            if application.idle_stop_s is not None:
                self._idle = self.timeline.after(application.idle_stop_s, self._stop)

    def _stop(self) -> None:
        self._application.state = "STOPPING"
        self.timeline.after(30.0, self._stopped)

    def _stopped(self) -> None:
        self._application.state = "STOPPED"


class Driver(JobProcess):
    """The Spark driver of one job run, from the run's acceptance to its end."""

    def __init__(
        self, drivers: Drivers, run: JobRun, attempt: AttemptId, label: str, name: str
    ) -> None:
        super().__init__(
            drivers.world.containers,
            attempt,
            id_=run.arn,
            task_ref=reference(run.application.arn, attempt),
            name=name,
        )
        self.run = run
        # EMR Serverless names no region: a role in a worker is without one unless the run sets it.
        self.host.has_region = not run.environment.keys().isdisjoint(_REGION)
        self._drivers = drivers
        self._emr = drivers.emr
        self._label = label
        self._executors = f"{name} executors"
        self._has_executors = False
        self._none_before: datetime | None = None  # executors were lost, and others come then
        self._has_lost_them = False

    @property
    def end_text(self) -> str:
        return f"{self.run.state} ({self.end_kind})"

    def launch(self) -> None:
        """It is scheduled: EMR looks for a worker."""
        first = self.job.ending(self.attempt.attempt, 0)
        lacks_right = self.world.injector.lacks_right(self.attempt.key.partition("#")[0])
        if first.kind == "never_starts" and not lacks_right:
            self.ending = first
            return
        start_s = 420 if first.kind == "slow_start" else 30 + 60 * self.host.rng.random()
        plan, site = self.world.plan, f"launch:{self._label}"
        fault = self.world.injector.of_event(site, _LAUNCH_FAULTS, plan.mix.launches)
        if fault is None and first.kind == "fails_to_start":
            self.ending, fault = first, _LOST
        if lacks_right:
            fault = _ENDED.format(1) + _LAST_WORDS.format(_NO_CODE)
        if fault is not None:
            self.later(start_s, lambda: self._gone("FAILED", fault))
        else:
            self.later(start_s, self._place)

    def done_by_platform(self) -> dict[str, Callable[[], None]]:
        lost = partial(self._gone, "FAILED", _LOST)
        return {
            **super().done_by_platform(),
            **dict.fromkeys(("spot", "maintenance", "infrastructure"), lost),
        }

    def cancelled(self) -> None:
        """EMR ends the workers: at once, as its documentation has it, or some time later."""
        plan, rng = self.world.plan, self.host.rng
        if self.stop is None:
            self.later(1 + 4 * rng.random(), self._is_cancelled)
            return
        fault = self.world.injector.of_event(
            f"cancelling:{self._label}", _CANCEL_FAULTS, plan.mix.events / 2
        )
        if fault == "slow":
            self.later(60 + 1_200 * rng.random(), self._is_cancelled)
        elif fault == "ends":
            self.later(300, self._is_cancelled)
        else:
            self.later(10 * rng.random(), self._is_cancelled)

    def ended_by_itself(self, code: int, reason: str | None) -> None:
        """While it is cancelled, either may come first."""
        is_cancelled = self.run.state == "CANCELLING"
        if is_cancelled and unit(self.world.plan.seed, f"last:{self.host.name}") < _HALF:
            self._is_cancelled()
        elif code:
            last_words = _LAST_WORDS.format(_FULL_MEMORY) if reason is not None else ""
            self._gone("FAILED", _ENDED.format(code) + last_words)
        else:
            self._gone("SUCCESS", "")

    def has_executors(self) -> bool:
        if self._has_executors:
            return True
        if self._none_before is not None and self.timeline.clock.now() < self._none_before:
            return False
        options = self.run.options
        cores = int(options["spark.executor.cores"])
        most = int(options["spark.dynamicAllocation.maxExecutors"])
        number = min(most, max(1, self._drivers.free_vcpu() // cores))
        self._has_executors = self._drivers.take(self._executors, number * cores)
        return self._has_executors

    def lose_executors(self) -> None:
        """Once. Others come soon, or the account gives no more to this attempt."""
        (kind,) = EMR_FAULTS
        if self._has_lost_them or self.ending.kind != kind:
            return
        self._has_lost_them = True
        self._has_executors = False
        self._drivers.give_back(self._executors)
        chance = unit(self.world.plan.seed, f"replaced:{self.host.name}")
        wait = timedelta(seconds=400 * chance) if chance < _HALF else timedelta(days=30)
        self._none_before = self.timeline.clock.now() + wait

    def work_area(self, client: "S3Client") -> BucketArea:
        engine = self.world.settings.emr_serverless
        if engine is None:
            raise AssertionError("a driver runs, and the settings have no application")
        return BucketArea.at(engine.work_area, client, self.attempt)

    def output(self, files: int, area: Folder) -> Folder:
        """The executors write to the work area."""
        found = sorted((self.world.output / str(files)).iterdir())
        self.write({file.name: file.read_text() for file in found}, area)
        return area

    def write(self, files: Mapping[str, str], folder: Folder) -> None:
        place = _reached(folder)
        for name, text in files.items():
            self._drivers.s3.put_object(
                Bucket=place.bucket, Key=place.prefix + name, Body=text.encode()
            )

    def read(self, folder: Folder) -> list[str]:
        """As Spark: without its own marker."""
        s3, place = self._drivers.s3, _reached(folder)
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=place.bucket, Prefix=place.prefix
        )
        return [
            s3.get_object(Bucket=place.bucket, Key=each["Key"])["Body"].read().decode()
            for page in pages
            for each in page.get("Contents", [])
            if not each["Key"].endswith(MARKER)
        ]

    def over(self) -> None:
        super().over()
        for owner in (self.host.name, self._executors):
            self._drivers.give_back(owner)

    def _place(self) -> None:
        if self._drivers.take(self.host.name, int(self.run.options["spark.driver.cores"])):
            self._emr.move(self.run, "RUNNING")
            self.begin()
        elif unit(self.world.plan.seed, f"no room:{self.host.name}") < _HALF:
            words = chosen(self.world.plan.seed, f"words:{self.host.name}", _NO_ROOM)
            self._gone("FAILED", words)
        else:
            self.later(_LOOK_S, self._place)

    def called_stopped(self) -> None:
        self._emr.end(self.run, "FAILED", _LOST)

    def _is_cancelled(self) -> None:
        self._gone("CANCELLED", _CANCELLED)

    def _gone(self, state: str, details: str) -> None:
        self.host.kill()
        self._emr.end(self.run, state, details)
        self.over()


def _reached(folder: Folder) -> S3Folder:
    if not isinstance(folder, S3Folder):
        raise TypeError(f"a cluster does not reach {folder}")
    return folder
