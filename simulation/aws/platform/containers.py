"""The containers of tasks: Fargate starts them, stops them, kills them, or loses them."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from greenlet import GreenletExit

from longhaul.domain.lease import AttemptId
from longhaul.settings import RuntimeSettings
from simulation.aws.ecs.client import Failure, FakeEcs
from simulation.aws.ecs.tasks import Task
from simulation.aws.platform.hosts import Host, raise_error
from simulation.aws.platform.runner import Runner
from simulation.aws.platform.sdk import Sdk
from simulation.aws.platform.timeline import Event, Timeline
from simulation.aws.service import RefusedError
from simulation.worlds.injection import Injector
from simulation.worlds.plan import Ending, Job, Plan
from simulation.worlds.randomness import rng_of, unit

if TYPE_CHECKING:
    from datetime import datetime

_NO_ROOM = (
    "Capacity is unavailable at this time. Please try again later.",
    "You've reached the limit on the number of vCPUs you can run concurrently",
    "You've reached the limit on the number of tasks you can run concurrently",
    "Tasks provisioning capacity limit exceeded.",
)
_LAUNCH_FAULTS = ("Capacity is unavailable at this time.", "RESOURCE:ENI", "Agent disconnected")
_SPOT_NOTICE_S = 120
_STOPS = {
    "spot": ("SpotInterruption", "Your Spot Task was interrupted."),
    "maintenance": (
        "TerminationNotice",
        "ECS is performing maintenance on the underlying infrastructure.",
    ),
}


class Surroundings(NamedTuple):
    """What containers share."""

    plan: Plan
    timeline: Timeline
    sdk: Sdk
    settings: Callable[[], RuntimeSettings]  # those deployed now
    output: Path  # what Spark would have written
    jobs: Mapping[str, Job]  # by name
    job_of: Callable[[str], Job]  # by key
    label_of: Callable[[str, int | str], str]  # by key and attempt
    injector: Injector


class Containers:
    """`simulation.aws.ecs.client.Containers`: those of all tasks.

    `began` and `is_over` have listeners, called once for each container.
    """

    def __init__(self, around: Surroundings, ecs: FakeEcs, injector: Injector) -> None:
        self._around = around
        self._ecs = ecs
        self._injector = injector
        self._counts: Counter[str] = Counter()
        self.running: dict[str, Container] = {}  # by the task's ARN
        self._running_by_key: dict[str, list[Container]] = defaultdict(list)
        self.began: list[Callable[[Container], None]] = []
        self.is_over: list[Callable[[Container], None]] = []
        ecs.containers = self
        ecs.before_launch = self._before_launch

    def launched(self, task: Task) -> None:
        attempt = attempt_of(task)
        label = f"task@{self._around.label_of(attempt.key, attempt.attempt)}"
        self._counts[label] += 1
        name = f"{label}.{self._counts[label]}"
        container = Container(
            self, self._around, task, attempt, name, rng_of(self._around.plan.seed, name)
        )
        self.running[task.arn] = container
        self._running_by_key[attempt.key].append(container)
        container.launch()

    def running_of(self, key: str) -> Sequence["Container"]:
        return self._running_by_key[key]

    def terminated(self, task: Task) -> None:
        self.running[task.arn].terminate()

    def over(self, container: "Container") -> None:
        if self.running.pop(container.task.arn, None) is not None:
            self._running_by_key[container.attempt.key].remove(container)
            for listener in self.is_over:
                listener(container)

    @property
    def ecs(self) -> FakeEcs:
        return self._ecs

    def _before_launch(self, request: Mapping[str, Any]) -> None:
        (override,) = request["overrides"]["containerOverrides"]
        names = {each["name"]: each["value"] for each in override["environment"]}
        site = f"launch:{self._around.label_of(names['LONGHAUL_KEY'], names['LONGHAUL_ATTEMPT'])}"
        if self._injector.is_out("capacity"):
            number = unit(self._around.plan.seed, f"no room:{site}")
            raise RefusedError("ClientException", _NO_ROOM[int(number * len(_NO_ROOM))])
        fault = self._injector.of_event(site, _LAUNCH_FAULTS, self._around.plan.mix.launches)
        if fault is not None:
            raise Failure(fault)


class Container:
    """One task's container, from launch to end."""

    def __init__(
        self,
        owner: Containers,
        around: Surroundings,
        task: Task,
        attempt: AttemptId,
        name: str,
        rng: random.Random,
    ) -> None:
        self._owner = owner
        self._around = around
        self._timeline = around.timeline
        self.task = task
        self.attempt = attempt
        skew_s = (2 * unit(around.plan.seed, f"skew:{name}") - 1) * around.plan.mix.skew_s
        self.host = Host(around.timeline, name, rng, skew_s)
        self.host.facts["attempt"] = attempt
        self.host.crashed = self._crash
        self.job = around.job_of(attempt.key)
        self.ending = Ending()  # known once the runner has read the request
        self.work: int | None = None
        self.has_worked = False
        self.outlasts_timeout = False  # its work takes longer than it may
        self.is_cut_off = False  # it works on, and ECS calls it stopped
        self.end_kind = "stopped"
        self.fault_of_job: str | None = None  # what the job itself has done wrong
        self.read_own_at: datetime | None = None  # when it had read what it compacts
        self.runner: Runner | None = None
        self._events: list[Event] = []

    def launch(self) -> None:
        first = self.job.ending(self.attempt.attempt, 0)
        start_s = 25 + 50 * self.host.rng.random()
        if first.kind == "slow_start":
            start_s = 420
        if first.kind == "never_starts":
            self.ending = first
            return
        if first.kind == "fails_to_start":
            self._later(start_s, lambda: self._fail_to_start(first))
            return
        self._later(start_s, self._start)

    def work_known(self, work: int, ending: Ending) -> None:
        """The runner has read the request. What the platform does to it is known now, too."""
        self.work, self.ending = work, ending
        if ending.kind in _STOPS:
            self._later(ending.after_s, lambda: self._stopped_by_platform(*_STOPS[ending.kind]))
        if ending.kind == "infrastructure":
            reason = "The underlying infrastructure is unhealthy."
            self._later(ending.after_s, lambda: self._gone("InfrastructureHealth", reason, None))
        if ending.kind == "partitioned":
            self._later(ending.after_s, lambda: self._around.injector.cut_off(self.host))
        if ending.kind == "cut_off":
            self._later(ending.after_s, self._cut_off)

    def terminate(self) -> None:
        """SIGTERM; SIGKILL follows."""
        if self.runner is None:
            # No process runs yet.
            self._later(5, lambda: self._gone("UserInitiated", "", None))
            return
        grace_s = self.task.definition.stop_timeout_s
        self._later(grace_s, lambda: self._gone("UserInitiated", "", 137))
        self.runner.hear_sigterm()

    def end_as(self, kind: str, code: int, reason: str | None = None) -> NoReturn:
        """Called by its process, which ends here."""
        self.end_kind = kind
        self.exit(code, reason)
        raise GreenletExit

    def end_process(self, code: int) -> NoReturn:
        """Stands in for `os._exit`."""
        self.end_as("ended by its last resort", code)

    def exit(self, code: int, reason: str | None = None) -> None:
        """Its process has ended. The process itself may call this."""
        self.host.kill()
        self._timeline.after(
            2 + 2 * self.host.rng.random(),
            lambda: self._gone(
                "EssentialContainerExited", "Essential container in task exited", code, reason
            ),
        )

    def _crash(self) -> None:
        """An injected fault ended its process. To the product, the job has crashed."""
        self.end_kind = "crashes"
        self.fault_of_job = self.fault_of_job or "crashes"
        self.exit(139)

    def _start(self) -> None:
        if self.task.status == "STOPPED":
            return
        self._owner.ecs.run(self.task)
        for listener in self._owner.began:
            listener(self)
        self.runner = Runner(self, self._around)
        self.host.run(partial(self._run, self.runner), raise_error)

    def _run(self, runner: Runner) -> None:
        self.exit(runner.main())

    def _fail_to_start(self, ending: Ending) -> None:
        self.ending = ending
        self._gone(
            "TaskFailedToStart",
            "CannotPullContainerError: pull image manifest has been retried 5 time(s)",
            None,
        )

    def _stopped_by_platform(self, stop_code: str, reason: str) -> None:
        task = self.task
        if task.status == "STOPPED" or task.stopping_at is not None:
            return
        task.desired, task.stopping_at = "STOPPED", self._timeline.clock.now()
        task.stop_code, task.stopped_reason = stop_code, reason
        self.terminate()

    def _cut_off(self) -> None:
        self.is_cut_off = True
        reason = "The underlying infrastructure is unhealthy."
        self._owner.ecs.end(
            self.task, stop_code="InfrastructureHealth", reason=reason, exit_code=None
        )

    def _gone(
        self, stop_code: str, reason: str, code: int | None, container_reason: str | None = None
    ) -> None:
        self.host.kill()
        for event in self._events:
            event.cancel()
        self._owner.ecs.end(
            self.task,
            stop_code=stop_code,
            reason=reason,
            exit_code=code,
            container_reason=container_reason,
        )
        self._owner.over(self)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._events.append(self._timeline.after(seconds, action))


def attempt_of(task: Task) -> AttemptId:
    names = task.environment
    return AttemptId(
        names["LONGHAUL_KEY"], int(names["LONGHAUL_RUN"]), int(names["LONGHAUL_ATTEMPT"])
    )
