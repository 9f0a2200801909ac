"""The containers of tasks: Fargate starts them, stops them, kills them, or loses them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from longhaul.core.lease import AttemptId
from longhaul.runner.stopping import hear_sigterm
from simulation.aws.ecs.client import Failure, Task, environment_of
from simulation.aws.platform.job_process import JobProcess, attempt_in
from simulation.aws.service import RefusedError
from simulation.aws.template import stage_of
from simulation.worlds.plan import Ending
from simulation.worlds.randomness import chosen

if TYPE_CHECKING:
    from simulation.worlds.world import World

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
_UNHEALTHY = ("InfrastructureHealth", "The underlying infrastructure is unhealthy.")
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

    def __init__(self, world: "World") -> None:
        self.world = world
        self.ecs = world.aws.ecs
        self._counts: Counter[str] = Counter()
        self.running: dict[str, JobProcess] = {}  # by id; a task's is its ARN
        self.began: list[Callable[[JobProcess], None]] = []
        self.is_over: list[Callable[[JobProcess], None]] = []
        self.ecs.containers = self
        self.ecs.before_launch = self._before_launch

    def launched(self, task: Task) -> None:
        attempt = attempt_in(task.environment)
        label = f"task@{self.world.attempt_label(attempt.key, attempt.attempt)}"
        self._counts[label] += 1
        name = f"{label}.{self._counts[label]}"
        container = Container(self, task, attempt, name)
        self.runs(container)
        container.launch()

    def running_of(self, key: str) -> Sequence[JobProcess]:
        return [each for each in self.running.values() if each.attempt.key == key]

    def runs(self, process: JobProcess) -> None:
        self.running[process.id] = process

    def terminated(self, task: Task) -> None:
        container = self.running[task.arn]
        if isinstance(container, Container):
            container.terminate()

    def began_working(self, process: JobProcess) -> None:
        for listener in self.began:
            listener(process)

    def over(self, process: JobProcess) -> None:
        if self.running.pop(process.id, None) is not None:
            for listener in self.is_over:
                listener(process)

    def _before_launch(self, request: Mapping[str, Any]) -> None:
        attempt, plan = attempt_in(environment_of(request)), self.world.plan
        injector, stage = self.world.injector, attempt.key.partition("#")[0]
        site = f"launch:{self.world.attempt_label(attempt.key, attempt.attempt)}"
        if injector.is_out("capacity"):
            raise RefusedError("ClientException", chosen(plan.seed, f"no room:{site}", _NO_ROOM))
        if injector.lacks_right(stage):
            raise RefusedError(*chosen(plan.seed, f"no right:{site}", _NO_RIGHT))
        check_role(self.world, request["overrides"]["taskRoleArn"], stage)
        fault = injector.of_event(site, _LAUNCH_FAULTS, plan.mix.launches)
        if fault is not None:
            raise Failure(fault)


class Container(JobProcess):
    """One task's container, from launch to end."""

    def __init__(self, owner: Containers, task: Task, attempt: AttemptId, name: str) -> None:
        super().__init__(owner, attempt, id_=task.arn, task_ref=task.arn, name=name)
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

    def done_by_platform(self) -> dict[str, Callable[[], None]]:
        return {
            **super().done_by_platform(),
            **{kind: partial(self._stopped_by_platform, *how) for kind, how in _STOPS.items()},
            "infrastructure": lambda: self._gone(*_UNHEALTHY),
        }

    def terminate(self) -> None:
        """SIGTERM; SIGKILL follows."""
        if self.stop is None:
            # No process runs yet.
            self.later(5, lambda: self._gone("UserInitiated", "", None))
            return
        grace_s = self.task.definition.stop_timeout_s
        self.later(grace_s, lambda: self._gone("UserInitiated", "", 137))
        if self.host.alive:
            hear_sigterm(self.stop, self.background)

    def ended_by_itself(self, code: int, reason: str | None) -> None:
        self._gone("EssentialContainerExited", "Essential container in task exited", code, reason)

    def _start(self) -> None:
        if not self.task.is_over:
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
        if task.is_over or task.stopping_at is not None:
            return
        task.desired, task.stopping_at = "STOPPED", self.timeline.clock.now()
        task.stop_code, task.stopped_reason = stop_code, reason
        self.terminate()

    def called_stopped(self) -> None:
        self._ecs.end(self.task, *_UNHEALTHY)

    def _gone(
        self,
        stop_code: str,
        reason: str,
        code: int | None = None,
        container_reason: str | None = None,
    ) -> None:
        self.host.kill()
        self._ecs.end(self.task, stop_code, reason, code, container_reason)
        self.over()


def check_role(world: "World", role: str, stage: str) -> None:
    """On AWS its first write would be denied: a role opens the rows of its own stage alone."""
    world.seen.check("role passed", stage_of(role), stage)
    if stage_of(role) != stage:
        raise RefusedError("AccessDeniedException", f"{role} may not write rows of {stage}")
