"""Step Functions in a world: the interpreter, its integrations, and their faults."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic

from longhaul.engines.emr_serverless import ends
from simulation.aws.ecs.client import FakeEcs, Task, environment_of
from simulation.aws.platform.hosts import PLATFORM, Host
from simulation.aws.platform.invocations import InvocationResult
from simulation.aws.platform.job_process import attempt_in
from simulation.aws.platform.timeline import Cancellable, Process, Timeline
from simulation.aws.stepfunctions.interpreter import Done, Failed, Interpreter, Tell
from simulation.aws.stepfunctions.sync import RunTaskSync, StartJobRunSync, Sync, T, request_of
from simulation.worlds.plan import Plan
from simulation.worlds.randomness import rng_of, unit

if TYPE_CHECKING:
    from simulation.worlds.world import World

TWICE: Any = SimpleNamespace(retries={"total_max_attempts": 2})
"""Step Functions repeats a call whose response was lost.

One state may start two tasks. A StartJobRun is repeated with its token: there is one job run.
"""

_LATE_S = 1_200.0
_HALF = 0.5


def engine(world: "World") -> Interpreter:
    """The interpreter of this world's executions."""
    plan, label_of = world.plan, world.attempt_label

    def of_task(request: Mapping[str, Any]) -> str:
        attempt = attempt_in(environment_of(request))
        return label_of(attempt.key, attempt.attempt)

    def of_job_run(request: Mapping[str, Any]) -> str:
        attempt = ends.attempt_of(request["name"])
        if attempt is None:
            raise AssertionError(f"the job run {request['name']!r} is named after no attempt")
        return label_of(attempt.key, attempt.attempt)

    tasks, job_runs = Hosted(world), Hosted(world)
    run_task = RunTask(tasks, world.sdk.client("ecs", config=TWICE), plan)
    start_job_run = StartJobRunSync(job_runs, world.sdk.client("emr-serverless", config=TWICE))
    return Interpreter(
        world.timeline,
        world.aws.stepfunctions,
        {
            "arn:aws:states:::lambda:invoke": partial(invoke, world),
            "arn:aws:states:::ecs:runTask.sync": Planned(
                world, "runTask", "stopTask", tasks, run_task, of_task
            ),
            "arn:aws:states:::emr-serverless:startJobRun.sync": Planned(
                world, "startJobRun", "cancelJobRun", job_runs, start_job_run, of_job_run
            ),
        },
        rng_of(plan.seed, "states"),
        timeout_stops_sync=lambda: plan.mix.timeout_stops_task,
    )


def invoke(world: "World", parameters: dict[str, Any], tell: Tell) -> Cancellable:
    """`simulation.aws.stepfunctions.interpreter.Integration` for `lambda:invoke`."""

    def answered(result: InvocationResult) -> None:
        if result.error is not None:
            tell(Failed(result.error, result.cause))
        else:
            shown = {"ExecutedVersion": "$LATEST", "Payload": result.payload, "StatusCode": 200}
            tell(Done(shown))

    payload = parameters["Payload"]
    site = world.attempt_label(payload["key"], payload["attempt"])
    if world.tiny is not None and parameters["FunctionName"] == world.tiny.function.arn:
        world.tiny.invoke(payload, site, answered)
    else:
        name = parameters["FunctionName"].rpartition(":")[2]
        world.platform.invoke(name, payload, site, answered)
    # An invocation continues when its execution stops; the interpreter ignores its result.
    return SimpleNamespace(cancel=lambda: None)


class Planned(Generic[T]):
    """A `.sync` integration of which the plan decides what AWS leaves open.

    That is: how late Step Functions hears of the end, and whether it stops what a cancelled state
    has started.
    """

    def __init__(
        self,
        world: "World",
        starts: str,
        stops: str,
        hosted: "Hosted",
        run: Sync[T],
        label: Callable[[Mapping[str, Any]], str],
    ) -> None:
        """Lets the plan decide about `run`, whose timeline is `hosted`.

        `starts` and `stops` are its calls in the sites of a plan, `label` gives the label of the
        attempt that a request names.
        """
        self._starts: str = starts
        self._stops: str = stops
        self._hosted: Hosted = hosted
        self._run: Sync[T] = run
        self._plan = world.plan
        self._injector = world.injector
        self._label = label
        run.told_after_s = self._told_after_s
        run.tries_to_stop = self._tries_to_stop

    def __call__(self, parameters: dict[str, Any], tell: Tell) -> Cancellable:
        label = self._label(request_of(parameters))
        self._hosted.label = f"{self._starts}@{label}"
        running = self._run(parameters, tell)

        def cancel() -> None:
            self._hosted.label = f"{self._stops}@{label}"
            running.cancel()

        return SimpleNamespace(cancel=cancel)

    def _told_after_s(self, thing: T) -> float:
        site = f"told:{self._label(thing.request)}"
        late = self._injector.of_event(site, ("late",), self._plan.mix.events / 4)
        return _LATE_S if late else 1 + 3 * unit(self._plan.seed, site)

    def _tries_to_stop(self) -> bool:
        site = f"stop:{self._hosted.label}"
        return self._injector.of_event(site, ("not stopped",), self._plan.mix.events / 2) is None


class RunTask(RunTaskSync):
    """Tasks, described as AWS may describe them."""

    def __init__(self, timeline: Timeline, ecs: FakeEcs, plan: Plan) -> None:
        super().__init__(timeline, ecs)
        self._plan = plan

    def description(self, task: Task) -> dict[str, Any]:
        """Some tasks that never started are described without containers."""
        shown = super().description(task)
        never_started = task.stop_code == "TaskFailedToStart"
        if never_started and unit(self._plan.seed, f"described:{task.arn}") < _HALF:
            del shown["Containers"]
        return shown


class Hosted(Timeline):
    """A timeline whose processes have hosts of their own, for the calls of Step Functions."""

    def __init__(self, world: "World") -> None:
        self.label = ""
        self.clock = world.timeline.clock
        self.after = world.timeline.after  # type: ignore[method-assign]  # the events are those of it
        self._world = world
        self._counts: Counter[str] = Counter()

    def spawn(
        self, work: Callable[[], Any], *, ended: Callable[[BaseException | None, Any], None]
    ) -> Process:
        self._counts[self.label] += 1
        name = f"{self.label}#{self._counts[self.label]}"
        host = Host(
            self._world.timeline, name, rng_of(self._world.plan.seed, name), traits=PLATFORM
        )
        return host.run(work, ended)
