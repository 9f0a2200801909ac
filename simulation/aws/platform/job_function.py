"""The function that runs jobs of the size `tiny`, as Lambda runs it.

The real handler runs in an execution environment, and starts the runner as a process beside it.
Lambda may end the handler at any time. Nothing says what becomes of the runner then: it ends, or it
stands still and goes on at the next invocation that gets the environment.
"""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from longhaul.engines.aws_lambda import runner
from longhaul.engines.aws_lambda.runner import ExecutionEnvironment, JobEnded
from simulation.aws.platform.hosts import Host, Waiter, here
from simulation.aws.platform.invocations import (
    Answered,
    Functions,
    InvocationResult,
    Running,
    failed,
)
from simulation.aws.platform.job_process import JobProcess, attempt_in
from simulation.aws.template import Function
from simulation.worlds.randomness import chosen, rng_of, unit

if TYPE_CHECKING:
    from simulation.worlds.world import World

_PLATFORM_FAILS = ("spot", "maintenance", "infrastructure")
_SIGNALS = 128
_KILLED = 9
_LONGEST_PAUSE_S = 500.0
_HALF = 0.5


class TinyProcess(JobProcess):
    """As `Forked` to the handler, which waits for it."""

    def __init__(
        self, invocation: "Invocation", task_ref: str, environment: Mapping[str, str]
    ) -> None:
        function, name = invocation.function, invocation.name
        super().__init__(
            function.world.containers,
            attempt_in(environment),
            id_=name,
            task_ref=task_ref,
            name=name,
            skew_s=invocation.environment.skew_s,
        )
        self._invocation = invocation
        self._code: int | None = None
        self._has_ended = Waiter(self.timeline)

    def start(self) -> None:
        self.owner.runs(self)
        self.begin()

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            self._has_ended.wait(timeout or 0)
        if self._code is None:
            raise subprocess.TimeoutExpired("the runner", timeout or 0)
        return self._code

    def kill(self) -> None:
        if self._code is None:
            self._ended(-_KILLED)

    def done_by_platform(self) -> dict[str, Callable[[], None]]:
        return {
            **super().done_by_platform(),
            **dict.fromkeys(_PLATFORM_FAILS, self._invocation.lost),
            "frozen": self._freeze,
        }

    def exit(self, code: int, reason: str | None = None) -> None:
        """A signal's code is negative to the parent. Out of memory may end the handler too."""
        self._ended(code if code <= _SIGNALS else _SIGNALS - code)
        if reason is not None and self._chance("killed") < _HALF:
            message = "RequestId: 0 Error: Runtime exited with error: signal: killed"
            self._invocation.lose("Runtime.ExitError", message)

    def stand_still(self) -> None:
        """Its handler is gone, and its environment frozen."""
        if self.host.alive:
            self.is_cut_off = True
            self.host.freeze()
            self.owner.over(self)

    def thaw(self) -> None:
        self.owner.runs(self)
        self.host.thaw()

    def _freeze(self) -> None:
        lasts = self._chance("lasts")
        self._invocation.pause(_LONGEST_PAUSE_S * lasts if lasts < _HALF else None)

    def called_stopped(self) -> None:
        self._invocation.answer(failed("Lambda.Unknown", ""))

    def _ended(self, code: int) -> None:
        self._code = code
        self.over()
        self._has_ended.wake_soon()

    def _chance(self, what: str) -> float:
        return unit(self.world.plan.seed, f"{what}:{self.host.name}")


FUNCTION = "aws_lambda"
"""The function's name here: that of its engine's folder."""

_REFUSALS = (
    "Lambda.TooManyRequestsException",
    "Lambda.EC2ThrottledException",
    "Lambda.ServiceException",
    "Lambda.ResourceNotReadyException",
)
_NO_RIGHT = "Lambda.AccessDeniedException"
_CAUSES = {_NO_RIGHT: "User: longhaul is not authorized to perform: lambda:InvokeFunction"}
_LOST_WITHIN_S = 120.0
_INIT_S = 10.0
_SLOW_INIT_S = 60.0
_LOSSES = (
    ("Lambda.Unknown", ""),
    ("Runtime.ExitError", "Runtime exited with error: exit status 1"),
    ("Sandbox.Timedout", "Task timed out"),
)


class Environment:
    """What an invocation leaves for the next: the handler's memory, and who stands still."""

    def __init__(self, skew_s: float) -> None:
        self.skew_s = skew_s
        self.left: list[TinyProcess] = []  # by a handler that Lambda ended
        self.forget()

    def forget(self) -> None:
        """The handler's process is a new one."""
        self.handler = ExecutionEnvironment(spared=frozenset(), _fork=_started)


class JobFunction(Functions):
    def __init__(self, world: "World", function: Function) -> None:
        super().__init__(world)
        self.function = function
        self._warm: list[Environment] = []
        self._request_ids = count(1)

    def invoke(self, payload: Any, site: str, answered: Answered) -> None:
        """Both runs of a doubled invocation have its id."""
        refusal = self._refusal(site, payload["key"])
        refused = None
        if refusal is not None:
            refused = InvocationResult(error=refusal, cause=_CAUSES.get(refusal, "Rate Exceeded."))
        self.send(
            "tiny",
            site,
            partial(self.accept, payload, f"{next(self._request_ids):032x}", site),
            answered,
            refused=refused,
            lost_after_s=1 + _LOST_WITHIN_S * unit(self.plan.seed, f"lost:{site}"),
        )

    def keep(self, environment: Environment) -> None:
        self._warm.append(environment)

    def _refusal(self, site: str, key: str) -> str | None:
        """The error with which Lambda refuses the invocation, if it does."""
        if self.injector.is_out("capacity"):
            return _REFUSALS[0]
        if self.injector.lacks_right(key.partition("#")[0]):
            return _NO_RIGHT
        return self.injector.of_event(f"launch:{site}", _REFUSALS, self.plan.mix.launches)

    def accept(
        self,
        payload: Any,
        request_id: str,
        site: str,
        answered: Answered,
        cold: bool,  # noqa: FBT001 - as `send` calls it
    ) -> None:
        """Begin a run of the handler, unless its environment is never ready."""
        self._counts[site] += 1
        name = f"tiny@{site}.{self._counts[site]}"
        rng = rng_of(self.plan.seed, name)
        first = self.world.job_of(payload["key"]).ending(int(payload["attempt"]), 0).kind
        if first in ("never_starts", "fails_to_start"):
            self._never_ready(first, answered)
            return
        if not self._warm or cold or rng.random() < 0.1:
            environment = Environment((2 * rng.random() - 1) * self.plan.mix.skew_s)
            delay_s = _SLOW_INIT_S if cold or first == "slow_start" else 1 + 8 * rng.random()
        else:
            environment, delay_s = self._warm.pop(), 0.01
        self.running += 1
        self.timeline.after(
            delay_s,
            lambda: Invocation(self, environment, request_id, payload, name, answered).begin(),
        )

    def _never_ready(self, kind: str, answered: Answered) -> None:
        """An initialization that takes too long, at once or until the invocation's time is up."""
        limit_s = _INIT_S if kind == "fails_to_start" else float(self.function.timeout_s)
        text = f"Init timed out after {limit_s:.0f} s"
        result = failed("Sandbox.Timedout", text)
        self.timeline.after(limit_s, partial(answered, result))


class Invocation(Running):
    """One run of the handler that runs jobs. `host` is the handler's."""

    def __init__(
        self,
        function: JobFunction,
        environment: Environment,
        request_id: str,
        payload: Any,
        name: str,
        answered: Answered,
    ) -> None:
        self.function = function
        self.environment = environment
        self.name = name
        self._event = json.loads(json.dumps(payload))  # as it goes over the wire
        self._children: list[TinyProcess] = []
        host = Host(
            function.timeline, f"{name} handler", rng_of(0, name), skew_s=environment.skew_s
        )
        host.facts["invocation"] = self
        super().__init__(function, host, function.function.timeout_s, answered)
        self.context = SimpleNamespace(
            aws_request_id=request_id,
            invoked_function_arn=function.function.arn,
            memory_limit_in_mb=str(function.function.memory_mib),
            get_remaining_time_in_millis=self.remaining_ms,
        )

    def begin(self) -> None:
        for each in self.environment.left:
            each.thaw()
        run = self.environment.handler.run
        self.host.run(lambda: run(self._event, cast("Any", self.context)), self._returned)

    def start(self, task_ref: str, names: Mapping[str, str]) -> TinyProcess:
        child = TinyProcess(self, task_ref, names)
        self._children.append(child)
        child.start()
        return child

    def clean(self) -> set[Path]:
        """What the handler's `clean` does to processes: it kills its own.

        A world has no files, so none is left.
        """
        for each in self._children:
            each.kill()
        return set()

    def timed_out(self) -> None:
        self.lose("Sandbox.Timedout", "Task timed out after 900.00 seconds")

    def lost(self) -> None:
        """The platform fails."""
        self.lose(*chosen(self.function.plan.seed, f"lost:{self.name}", _LOSSES))

    def lose(self, error: str, message: str) -> None:
        """Lambda ends the handler."""
        if self.is_over:
            return
        self.host.kill()
        self.environment.forget()
        is_left = unit(self.function.plan.seed, f"left:{self.name}") < _HALF
        for each in self._children:
            if is_left:
                each.stand_still()
            else:
                each.kill()
        self.over(failed(error, message))

    def pause(self, for_s: float | None) -> None:
        """The whole environment stands still, for that long; None: until Lambda ends it."""
        hosts = [self.host, *(each.host for each in self._children)]
        for host in hosts:
            host.freeze()

        def go_on() -> None:
            if not self.is_over:
                for host in hosts:
                    host.thaw()

        if for_s is not None:
            self.timeline.after(for_s, go_on)

    def _returned(self, error: BaseException | None, _: object) -> None:
        if error is None:
            self.over(InvocationResult(payload={}))
        elif isinstance(error, JobEnded):
            self.over(failed(type(error).__name__, str(error)))
        else:
            raise error

    def over(self, result: InvocationResult) -> None:
        """The environment is frozen, with all that is left in it, and serves the next."""
        environment = self.environment
        environment.left = [
            each for each in (*environment.left, *self._children) if each.host.alive
        ]
        for each in environment.left:
            each.stand_still()
        self.function.keep(environment)
        super().over(result)


def replacements(now: Callable[[], datetime]) -> tuple[tuple[Any, str, Any], ...]:
    """What the handler's code gets in a world: owners, names and values."""
    return (
        (runner, "datetime", SimpleNamespace(now=lambda _: now())),
        (runner, "os", SimpleNamespace(environ={"TMPDIR": "/nonexistent"})),
        (runner, "clean", lambda *_: _invocation().clean()),
    )


def _invocation() -> Invocation:
    """That of the calling handler."""
    return cast("Invocation", here().facts["invocation"])


def _started(arguments: Sequence[str], environment: Mapping[str, str]) -> TinyProcess:
    """Stands in for `Forked`."""
    return _invocation().start(arguments[0], environment)
