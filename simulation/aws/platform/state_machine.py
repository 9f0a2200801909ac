"""Step Functions in a world: the interpreter, its integrations, and their faults."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from longhaul.engines.emr_serverless import ends
from simulation.aws.ecs.tasks import Task
from simulation.aws.platform.hosts import PLATFORM, Host
from simulation.aws.platform.invocations import InvocationResult, Lambda
from simulation.aws.platform.job_function import JobFunction
from simulation.aws.platform.job_process import attempt_in
from simulation.aws.platform.sdk import Sdk
from simulation.aws.platform.timeline import Cancellable, Timeline
from simulation.aws.stepfunctions.client import FakeStepFunctions
from simulation.aws.stepfunctions.integration import Done, Failed, Integration, Tell
from simulation.aws.stepfunctions.interpreter import Interpreter
from simulation.aws.stepfunctions.sync import RunTaskSync, StartJobRunSync, described
from simulation.worlds.injection import Injector
from simulation.worlds.plan import Plan
from simulation.worlds.randomness import rng_of, unit

TWICE: Any = SimpleNamespace(retries={"total_max_attempts": 2})
"""Step Functions repeats a call to ECS whose response was lost: one state may start two tasks."""

_LATE_S = 1_200.0
_HALF = 0.5
_SIDECAR = {"Name": "aws-guardduty-agent-a1B2", "LastStatus": "STOPPED", "ExitCode": 0}
_SIDECAR_KILLED = 137


def engine(
    plan: Plan,
    timeline: Timeline,
    stepfunctions: FakeStepFunctions,
    sdk: Sdk,
    injector: Injector,
    platform: Lambda,
    jobs: JobFunction | None,
    label_of: Callable[[str, int | str], str],
) -> Interpreter:
    """The interpreter of this world's executions."""
    return Interpreter(
        timeline,
        stepfunctions,
        {
            "arn:aws:states:::lambda:invoke": LambdaInvoke(platform, jobs, label_of),
            "arn:aws:states:::ecs:runTask.sync": RunTask(plan, timeline, sdk, injector, label_of),
            "arn:aws:states:::emr-serverless:startJobRun.sync": StartJobRun(
                plan, timeline, sdk, injector, label_of
            ),
        },
        rng_of(plan.seed, "states"),
        timeout_stops_sync=lambda: plan.mix.timeout_stops_task,
    )


class LambdaInvoke:
    """`simulation.aws.stepfunctions.integration.Integration` for `lambda:invoke`."""

    def __init__(
        self,
        platform: Lambda,
        jobs: JobFunction | None,
        label_of: Callable[[str, int | str], str],
    ) -> None:
        self._platform = platform
        self._jobs = jobs
        self._label_of = label_of

    def __call__(self, parameters: dict[str, Any], tell: Tell) -> Cancellable:
        def answered(result: InvocationResult) -> None:
            if result.error is not None:
                tell(Failed(result.error, result.cause))
            else:
                shown = {"ExecutedVersion": "$LATEST", "Payload": result.payload, "StatusCode": 200}
                tell(Done(shown))

        payload = parameters["Payload"]
        site = self._label_of(payload["key"], payload["attempt"])
        if self._jobs is not None and parameters["FunctionName"] == self._jobs.function.arn:
            self._jobs.invoke(payload, site, answered)
        else:
            name = parameters["FunctionName"].rpartition(":")[2]
            self._platform.invoke(name, payload, site, answered)
        # An invocation continues when its execution stops; the interpreter ignores its result.
        return SimpleNamespace(cancel=lambda: None)


class _Sync:
    """An integration that waits for an end, where the plan decides what AWS leaves open.

    That is: how late Step Functions hears of the end, and whether it stops what a cancelled state
    has started. `starts` and `stops` are the calls that it makes, in the sites of a plan.
    """

    starts: ClassVar[str]
    stops: ClassVar[str]

    def __init__(
        self,
        plan: Plan,
        timeline: Timeline,
        sdk: Sdk,
        injector: Injector,
        label_of: Callable[[str, int | str], str],
    ) -> None:
        self._plan = plan
        self._label_of = label_of
        self._injector = injector
        self._hosted = _Hosted(timeline, plan.seed)
        self._run = self._integration(sdk)

    def __call__(self, parameters: dict[str, Any], tell: Tell) -> Cancellable:
        label = self._label(parameters)
        self._hosted.label = f"{self.starts}@{label}"
        running = self._run(parameters, tell)

        def cancel() -> None:
            self._hosted.label = f"{self.stops}@{label}"
            running.cancel()

        return SimpleNamespace(cancel=cancel)

    def _integration(self, sdk: Sdk) -> Integration:
        raise NotImplementedError

    def _label(self, parameters: Mapping[str, Any]) -> str:
        """The label of the attempt that the parameters name."""
        raise NotImplementedError

    def _told_after_s(self, label: str) -> float:
        site = f"told:{label}"
        late = self._injector.of_event(site, ("late",), self._plan.mix.events / 4)
        return _LATE_S if late else 1 + 3 * unit(self._plan.seed, site)

    def _tries_to_stop(self) -> bool:
        site = f"stop:{self._hosted.label}"
        return self._injector.of_event(site, ("not stopped",), self._plan.mix.events / 2) is None


class RunTask(_Sync):
    """`ecs:runTask.sync`. A RunTask whose response was lost is repeated: there are two tasks."""

    starts, stops = "runTask", "stopTask"

    def _integration(self, sdk: Sdk) -> Integration:
        run = RunTaskSync(self._hosted, sdk.client("ecs", config=TWICE))  # type: ignore[arg-type]  # as a Timeline
        run.told_after_s = self._task_told_after_s
        run.description = self._description
        run.tries_to_stop = self._tries_to_stop
        return run

    def _label(self, parameters: Mapping[str, Any]) -> str:
        (override, *_) = parameters["Overrides"]["ContainerOverrides"]
        names = {each["Name"]: each["Value"] for each in override["Environment"]}
        return self._label_of(names["LONGHAUL_KEY"], names["LONGHAUL_ATTEMPT"])

    def _task_told_after_s(self, task: Task) -> float:
        attempt = attempt_in(task.environment)
        return self._told_after_s(self._label_of(attempt.key, attempt.attempt))

    def _description(self, task: Task) -> dict[str, Any]:
        """Some tasks that never started are described without containers.

        GuardDuty's container may stand before the job's or after it, and has an end of its own.
        """
        shown = described(task)
        if self._plan.sidecars:
            seed, sidecar = self._plan.seed, dict(_SIDECAR)
            if unit(seed, f"sidecar's end:{task.arn}") < _HALF:
                sidecar["ExitCode"] = _SIDECAR_KILLED
            place = 0 if unit(seed, f"sidecar's place:{task.arn}") < _HALF else 1
            shown["Containers"].insert(place, sidecar)
        if (
            task.stop_code == "TaskFailedToStart"
            and unit(self._plan.seed, f"described:{task.arn}") < _HALF
        ):
            del shown["Containers"]
        return shown


class StartJobRun(_Sync):
    """`emr-serverless:startJobRun.sync`.

    A StartJobRun whose response was lost is repeated with the same token: there is one job run.
    """

    starts, stops = "startJobRun", "cancelJobRun"

    def _integration(self, sdk: Sdk) -> Integration:
        emr = sdk.client("emr-serverless", config=TWICE)
        run = StartJobRunSync(self._hosted, emr)  # type: ignore[arg-type]  # as a Timeline
        run.told_after_s = lambda job_run: self._told_after_s(self._named(job_run.request["name"]))
        run.tries_to_stop = self._tries_to_stop
        return run

    def _label(self, parameters: Mapping[str, Any]) -> str:
        return self._named(parameters["Name"])

    def _named(self, name: str) -> str:
        """The label of the attempt after which a job run is named."""
        attempt = ends.attempt_of(name)
        if attempt is None:
            raise AssertionError(f"the job run {name!r} is named after no attempt")
        return self._label_of(attempt.key, attempt.attempt)


class _Hosted:
    """A timeline whose processes have hosts of their own, for the calls of Step Functions."""

    def __init__(self, timeline: Timeline, seed: int) -> None:
        self.label = ""
        self._timeline = timeline
        self._seed = seed
        self._counts: dict[str, int] = {}
        self.after = timeline.after
        self.clock = timeline.clock

    def spawn(
        self, work: Callable[[], Any], *, ended: Callable[[BaseException | None, Any], None]
    ) -> Any:
        self._counts[self.label] = n = self._counts.get(self.label, 0) + 1
        name = f"{self.label}#{n}"
        host = Host(self._timeline, name, rng_of(self._seed, name), traits=PLATFORM)
        return host.run(work, ended)
