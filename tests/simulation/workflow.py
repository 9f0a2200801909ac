"""Step Functions as this world has it: the interpreter, with the functions and tasks that its states run, and with what goes wrong on the way to them."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from tests.fakes.ecs_tasks import Task
from tests.fakes.stepfunctions import FakeStepFunctions
from tests.simulation.containers import attempt_of
from tests.simulation.hosts import PLATFORM, Host
from tests.simulation.injection import Injector
from tests.simulation.lambda_platform import Answer, Lambda
from tests.simulation.plan import Plan
from tests.simulation.randomness import rng_of, unit
from tests.simulation.run_task_sync import RunTaskSync, described
from tests.simulation.sdk import Sdk
from tests.simulation.states import Done, Failed, Result, StatesEngine
from tests.simulation.timeline import Cancellable, Timeline

TWICE: Any = SimpleNamespace(retries={"total_max_attempts": 2})
"""Step Functions calls ECS again when an answer is lost: so one state may start two tasks."""

_LATE_S = 1_200.0
_HALF = 0.5


def engine(
    plan: Plan,
    timeline: Timeline,
    stepfunctions: FakeStepFunctions,
    sdk: Sdk,
    injector: Injector,
    platform: Lambda,
    label_of: Callable[[str, int | str], str],
) -> StatesEngine:
    """The interpreter of this world's executions."""
    made = StatesEngine(
        timeline,
        stepfunctions,
        {
            "arn:aws:states:::lambda:invoke": LambdaInvoke(platform, label_of),
            "arn:aws:states:::ecs:runTask.sync": RunTask(plan, timeline, sdk, injector, label_of),
        },
        rng_of(plan.seed, "states"),
    )
    made.timeout_stops_sync = lambda: plan.mix.timeout_stops_task
    return made


class LambdaInvoke:
    """`tests.simulation.states.Integration` for `lambda:invoke`."""

    def __init__(self, platform: Lambda, label_of: Callable[[str, int | str], str]) -> None:
        self._platform = platform
        self._label_of = label_of

    def __call__(self, parameters: dict[str, Any], done: Callable[[Result], None]) -> Cancellable:
        def answered(answer: Answer) -> None:
            if answer.error is not None:
                done(Failed(answer.error, answer.cause))
            else:
                done(Done({"ExecutedVersion": "$LATEST", "Payload": answer.payload, "StatusCode": 200}))

        payload = parameters["Payload"]
        site = self._label_of(payload["key"], payload["attempt"])
        self._platform.invoke(parameters["FunctionName"].rpartition(":")[2], payload, site, answered)
        # An invocation runs on when its execution stops; the interpreter listens no more.
        return SimpleNamespace(cancel=lambda: None)


class RunTask:
    """`ecs:runTask.sync`, with what AWS leaves open decided by the plan: how late a task's end is heard of, whether a cancelled one is stopped."""

    def __init__(
        self, plan: Plan, timeline: Timeline, sdk: Sdk, injector: Injector, label_of: Callable[[str, int | str], str]
    ) -> None:
        self._plan = plan
        self._label_of = label_of
        self._injector = injector
        self._hosted = _Hosted(timeline, plan.seed)
        self._run = RunTaskSync(self._hosted, sdk.client("ecs", config=TWICE))  # type: ignore[arg-type]  # as a Timeline
        self._run.told_after_s = self._told_after_s
        self._run.description = self._description
        self._run.tries_to_stop = self._tries_to_stop

    def __call__(self, parameters: dict[str, Any], done: Callable[[Result], None]) -> Cancellable:
        label = self._label(parameters["Overrides"])
        self._hosted.label = f"runTask@{label}"
        running = self._run(parameters, done)

        def cancel() -> None:
            self._hosted.label = f"stopTask@{label}"
            running.cancel()

        return SimpleNamespace(cancel=cancel)

    def _label(self, overrides: Mapping[str, Any]) -> str:
        """The attempt that the container's environment names."""
        names = {each["Name"]: each["Value"] for each in overrides["ContainerOverrides"][0]["Environment"]}
        return self._label_of(names["LONGHAUL_KEY"], names["LONGHAUL_ATTEMPT"])

    def _told_after_s(self, task: Task) -> float:
        attempt = attempt_of(task)
        site = f"told:{self._label_of(attempt.key, attempt.attempt)}"
        late = self._injector.of_event(site, ("late",), self._plan.mix.events / 4)
        return _LATE_S if late else 1 + 3 * unit(self._plan.seed, site)

    def _tries_to_stop(self) -> bool:
        site = f"stop:{self._hosted.label}"
        return self._injector.of_event(site, ("not stopped",), self._plan.mix.events / 2) is None

    def _description(self, task: Task) -> dict[str, Any]:
        """Some that never started are told without containers."""
        shown = described(task)
        if task.stop_code == "TaskFailedToStart" and unit(self._plan.seed, f"described:{task.arn}") < _HALF:
            del shown["Containers"]
        return shown


class _Hosted:
    """A timeline whose processes each have a host of their own: what Step Functions calls by itself."""

    def __init__(self, timeline: Timeline, seed: int) -> None:
        self.label = ""
        self._timeline = timeline
        self._seed = seed
        self._counts: dict[str, int] = {}
        self.after = timeline.after
        self.clock = timeline.clock

    def spawn(self, work: Callable[[], Any], *, ended: Callable[[BaseException | None, Any], None]) -> Any:
        self._counts[self.label] = n = self._counts.get(self.label, 0) + 1
        name = f"{self.label}#{n}"
        host = Host(self._timeline, name, rng_of(self._seed, name), traits=PLATFORM)
        return host.run(work, ended)
