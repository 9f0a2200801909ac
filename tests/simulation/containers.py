"""What runs in the tasks: Fargate starts a container, tells it to stop, kills it, or loses it."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from longhaul.domain.lease import AttemptId
from longhaul.settings import RuntimeSettings
from tests.fakes.ecs import Failure, FakeEcs
from tests.fakes.ecs_tasks import Task
from tests.simulation.hosts import Host
from tests.simulation.injection import Injector
from tests.simulation.plan import Ending, Job, Plan
from tests.simulation.randomness import rng_of, unit
from tests.simulation.runner import Runner
from tests.simulation.sdk import Sdk
from tests.simulation.timeline import Event, Timeline

_LAUNCH_FAULTS = ("Capacity is unavailable at this time.", "RESOURCE:ENI", "Agent disconnected")
_SPOT_NOTICE_S = 120
_STOPS = {
    "spot": ("SpotInterruption", "Your Spot Task was interrupted."),
    "maintenance": ("TerminationNotice", "ECS is performing maintenance on the underlying infrastructure."),
}


class Surroundings(NamedTuple):
    """What containers share."""

    plan: Plan
    timeline: Timeline
    sdk: Sdk
    settings: RuntimeSettings
    output: Path  # what Spark would have written
    jobs: Mapping[str, Job]  # by name
    job_of: Callable[[str], Job]  # by key
    label_of: Callable[[str, int | str], str]  # by key and attempt


class Containers:
    """`tests.fakes.ecs.Containers`. `ended`: how containers went, told once for each: key, attempt, the kind of their ending, whether they worked at all."""

    def __init__(self, around: Surroundings, ecs: FakeEcs, injector: Injector) -> None:
        self._around = around
        self._ecs = ecs
        self._injector = injector
        self._counts: Counter[str] = Counter()
        self.running: dict[str, Container] = {}  # by the task's ARN
        self.began: list[Callable[[Container], None]] = []
        self.is_over: list[Callable[[Container], None]] = []
        ecs.containers = self
        ecs.before_launch = self._before_launch

    def launched(self, task: Task) -> None:
        attempt = attempt_of(task)
        label = f"task@{self._around.label_of(attempt.key, attempt.attempt)}"
        self._counts[label] += 1
        name = f"{label}.{self._counts[label]}"
        self.running[task.arn] = Container(
            self, self._around, task, attempt, name, rng_of(self._around.plan.seed, name)
        )
        self.running[task.arn].launch()

    def terminated(self, task: Task) -> None:
        self.running[task.arn].terminate()

    def over(self, container: "Container") -> None:
        if self.running.pop(container.task.arn, None) is not None:
            for listener in self.is_over:
                listener(container)

    @property
    def ecs(self) -> FakeEcs:
        return self._ecs

    def _before_launch(self, request: Mapping[str, Any]) -> None:
        (override,) = request["overrides"]["containerOverrides"]
        names = {each["name"]: each["value"] for each in override["environment"]}
        site = f"launch:{self._around.label_of(names['LONGHAUL_KEY'], names['LONGHAUL_ATTEMPT'])}"
        fault = self._injector.of_event(site, _LAUNCH_FAULTS, self._around.plan.mix.launches)
        if fault is not None:
            raise Failure(fault)


class Container:
    """One task's container, from launch to end."""

    def __init__(
        self, owner: Containers, around: Surroundings, task: Task, attempt: AttemptId, name: str, rng: random.Random
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
        self.ending = Ending()  # of the work that its request asks for, known once it has read that
        self.work: int | None = None
        self.has_worked = False
        self.is_cut_off = False  # ECS knows nothing of it any more, and it works on
        self.end_kind = "stopped"
        self.fault_of_job: str | None = None  # what the job itself has done wrong, once it has
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
        """The runner has read the request: what the platform will do to it is known too."""
        self.work, self.ending = work, ending
        if ending.kind in _STOPS:
            self._later(ending.after_s, lambda: self._stopped_by_platform(*_STOPS[ending.kind]))
        if ending.kind == "infrastructure":
            reason = "The underlying infrastructure is unhealthy."
            self._later(ending.after_s, lambda: self._gone("InfrastructureHealth", reason, None))
        if ending.kind == "cut_off":
            self._later(ending.after_s, self._cut_off)

    def terminate(self) -> None:
        """SIGTERM; SIGKILL follows."""
        if self.runner is None:
            # Nothing runs yet that could hear it.
            self._later(5, lambda: self._gone("UserInitiated", "", None))
            return
        grace_s = self.task.definition.stop_timeout_s
        self._later(grace_s, lambda: self._gone("UserInitiated", "", 137))
        if self.ending.kind != "hangs" or not self.runner.has_hung:
            self.runner.hear_sigterm()

    def exit(self, code: int, reason: str | None = None) -> None:
        """Its process has ended. May be called from inside of it."""
        self.host.kill()
        self._timeline.after(
            2 + 2 * self.host.rng.random(),
            lambda: self._gone("EssentialContainerExited", "Essential container in task exited", code, reason),
        )

    def _crash(self) -> None:
        """A fault of ours ended its process: to the product it is the job that crashed."""
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
        self.host.run(self.runner.main, self._main_ended)

    def _main_ended(self, error: BaseException | None, code: Any) -> None:
        if error is not None:
            raise error
        self.exit(int(code))

    def _fail_to_start(self, ending: Ending) -> None:
        self.ending = ending
        self._gone(
            "TaskFailedToStart", "CannotPullContainerError: pull image manifest has been retried 5 time(s)", None
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
        self._owner.ecs.end(self.task, stop_code="InfrastructureHealth", reason=reason, exit_code=None)

    def _gone(self, stop_code: str, reason: str, code: int | None, container_reason: str | None = None) -> None:
        self.host.kill()
        for event in self._events:
            event.cancel()
        self._owner.ecs.end(
            self.task, stop_code=stop_code, reason=reason, exit_code=code, container_reason=container_reason
        )
        self._owner.over(self)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._events.append(self._timeline.after(seconds, action))


def attempt_of(task: Task) -> AttemptId:
    names = task.environment
    return AttemptId(names["LONGHAUL_KEY"], int(names["LONGHAUL_RUN"]), int(names["LONGHAUL_ATTEMPT"]))
