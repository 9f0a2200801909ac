"""The containers of tasks: Fargate starts them, stops them, kills them, or loses them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from longhaul.core.lease import AttemptId
from simulation.aws.ecs.client import Failure, FakeEcs
from simulation.aws.ecs.tasks import Task
from simulation.aws.platform.job_process import JobProcess, Surroundings, attempt_in
from simulation.aws.service import RefusedError
from simulation.aws.template import stage_of
from simulation.worlds.injection import Injector
from simulation.worlds.plan import Ending
from simulation.worlds.randomness import rng_of, unit

_NO_ROOM = (
    "Capacity is unavailable at this time. Please try again later.",
    "You've reached the limit on the number of vCPUs you can run concurrently",
    "You've reached the limit on the number of tasks you can run concurrently",
    "Tasks provisioning capacity limit exceeded.",
)
_NO_RIGHT = (
    (
        "AccessDeniedException",
        "User: longhaul is not authorized to perform: iam:PassRole on resource: role/Task",
    ),
    ("InvalidParameterException", "The subnet ID 'subnet-0a1b2c' does not exist"),
    ("ClientException", "ECS was unable to assume the role that was provided for this task."),
    ("ClusterNotFoundException", "Cluster not found."),
)
_LAUNCH_FAULTS = ("Capacity is unavailable at this time.", "RESOURCE:ENI", "Agent disconnected")
_STOPS = {
    "spot": ("SpotInterruption", "Your Spot Task was interrupted."),
    "maintenance": (
        "TerminationNotice",
        "ECS is performing maintenance on the underlying infrastructure.",
    ),
}


class Containers:
    """`simulation.aws.ecs.client.Containers`: those of all tasks.

    `running` has every engine's processes. `began` and `is_over` have listeners, called once for
    each.
    """

    def __init__(self, around: Surroundings, ecs: FakeEcs, injector: Injector) -> None:
        self._around = around
        self.ecs = ecs
        self._injector = injector
        self._counts: Counter[str] = Counter()
        self.running: dict[str, JobProcess] = {}  # by id; a task's is its ARN
        self._running_by_key: dict[str, list[JobProcess]] = defaultdict(list)
        self.began: list[Callable[[JobProcess], None]] = []
        self.is_over: list[Callable[[JobProcess], None]] = []
        ecs.containers = self
        ecs.before_launch = self._before_launch

    def launched(self, task: Task) -> None:
        attempt = attempt_in(task.environment)
        label = f"task@{self._around.label_of(attempt.key, attempt.attempt)}"
        self._counts[label] += 1
        name = f"{label}.{self._counts[label]}"
        container = Container(self, self._around, task, attempt, name)
        self.runs(container)
        container.launch()

    def running_of(self, key: str) -> Sequence[JobProcess]:
        return self._running_by_key[key]

    def runs(self, process: JobProcess) -> None:
        self.running[process.id] = process
        self._running_by_key[process.attempt.key].append(process)

    def terminated(self, task: Task) -> None:
        container = self.running[task.arn]
        if isinstance(container, Container):
            container.terminate()

    def began_working(self, process: JobProcess) -> None:
        for listener in self.began:
            listener(process)

    def over(self, process: JobProcess) -> None:
        if self.running.pop(process.id, None) is not None:
            self._running_by_key[process.attempt.key].remove(process)
            for listener in self.is_over:
                listener(process)

    def _before_launch(self, request: Mapping[str, Any]) -> None:
        (override,) = request["overrides"]["containerOverrides"]
        names = {each["name"]: each["value"] for each in override["environment"]}
        site = f"launch:{self._around.label_of(names['LONGHAUL_KEY'], names['LONGHAUL_ATTEMPT'])}"
        if self._injector.is_out("capacity"):
            number = unit(self._around.plan.seed, f"no room:{site}")
            raise RefusedError("ClientException", _NO_ROOM[int(number * len(_NO_ROOM))])
        stage = names["LONGHAUL_KEY"].partition("#")[0]
        if self._injector.lacks_right(stage):
            number = unit(self._around.plan.seed, f"no right:{site}")
            raise RefusedError(*_NO_RIGHT[int(number * len(_NO_RIGHT))])
        check_role(self._around, request["overrides"]["taskRoleArn"], stage)
        fault = self._injector.of_event(site, _LAUNCH_FAULTS, self._around.plan.mix.launches)
        if fault is not None:
            raise Failure(fault)


class Container(JobProcess):
    """One task's container, from launch to end."""

    def __init__(
        self, owner: Containers, around: Surroundings, task: Task, attempt: AttemptId, name: str
    ) -> None:
        super().__init__(
            owner,
            around,
            attempt,
            id_=task.arn,
            task_ref=task.arn,
            name=name,
            rng=rng_of(around.plan.seed, name),
            skew_s=(2 * unit(around.plan.seed, f"skew:{name}") - 1) * around.plan.mix.skew_s,
        )
        self.task = task
        self._ecs = owner.ecs

    @property
    def end_text(self) -> str:
        return f"{self.task.stop_code} exit {self.task.exit_code} ({self.end_kind})"

    def launch(self) -> None:
        first = self.job.ending(self.attempt.attempt, 0)
        start_s = 25 + 50 * self.host.rng.random()
        if first.kind == "slow_start":
            start_s = 420
        if first.kind == "never_starts":
            self.ending = first
            return
        if first.kind == "fails_to_start":
            self.later(start_s, lambda: self._fail_to_start(first))
            return
        self.later(start_s, self._start)

    def work_known(self, work: int, ending: Ending) -> None:
        super().work_known(work, ending)
        if ending.kind in _STOPS:
            self.later(ending.after_s, lambda: self._stopped_by_platform(*_STOPS[ending.kind]))
        if ending.kind == "infrastructure":
            reason = "The underlying infrastructure is unhealthy."
            self.later(ending.after_s, lambda: self._gone("InfrastructureHealth", reason, None))
        if ending.kind == "cut_off":
            self.later(ending.after_s, self._cut_off)

    def terminate(self) -> None:
        """SIGTERM; SIGKILL follows."""
        if self.runner is None:
            # No process runs yet.
            self.later(5, lambda: self._gone("UserInitiated", "", None))
            return
        grace_s = self.task.definition.stop_timeout_s
        self.later(grace_s, lambda: self._gone("UserInitiated", "", 137))
        self.runner.hear_sigterm()

    def exit(self, code: int, reason: str | None = None) -> None:
        self.host.kill()
        self.timeline.after(
            2 + 2 * self.host.rng.random(),
            lambda: self._gone(
                "EssentialContainerExited", "Essential container in task exited", code, reason
            ),
        )

    def _start(self) -> None:
        if self.task.status == "STOPPED":
            return
        self._ecs.run(self.task)
        self.begin()

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
        task.desired, task.stopping_at = "STOPPED", self.timeline.clock.now()
        task.stop_code, task.stopped_reason = stop_code, reason
        self.terminate()

    def _cut_off(self) -> None:
        self.is_cut_off = True
        reason = "The underlying infrastructure is unhealthy."
        self._ecs.end(self.task, stop_code="InfrastructureHealth", reason=reason, exit_code=None)

    def _gone(
        self, stop_code: str, reason: str, code: int | None, container_reason: str | None = None
    ) -> None:
        self.host.kill()
        self._ecs.end(
            self.task,
            stop_code=stop_code,
            reason=reason,
            exit_code=code,
            container_reason=container_reason,
        )
        self.over()


def check_role(around: Surroundings, role: str, stage: str) -> None:
    """On AWS its first write would be denied: a role opens the rows of its own stage alone."""
    around.noted("role passed", stage_of(role), stage)
    if stage_of(role) != stage:
        raise RefusedError("AccessDeniedException", f"{role} may not write rows of {stage}")
