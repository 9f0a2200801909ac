"""Lambda: invocations of the real handlers in cold or warm sandboxes, with their timeouts."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from functions import dispatcher, heartbeat, settle, sweeper
from simulation.aws.platform.hosts import Host
from simulation.worlds.randomness import rng_of, unit

if TYPE_CHECKING:
    from simulation.worlds.world import World

HANDLERS: Mapping[str, ModuleType] = {
    "dispatcher": dispatcher,
    "heartbeat": heartbeat,
    "settle": settle,
    "sweeper": sweeper,
}
FUNCTION = frozenset({"function"})
INVOKE_FAULTS = ("throttled", "lost", "doubled", "cold")
_RETRIES = 2  # of an asynchronous invocation whose function failed
_RETRY_AFTER_S = (60.0, 120.0)

Answered = Callable[["InvocationResult"], None]


class InvocationResult(NamedTuple):
    """What an invoker gets: a payload, or an error's name and cause."""

    payload: Any = None
    error: str | None = None
    cause: str = ""


THROTTLED = InvocationResult(error="Lambda.TooManyRequestsException", cause="Rate Exceeded.")


def failed(error: str, message: str) -> InvocationResult:
    """As Step Functions says it; of `Lambda.Unknown` there is no more than its name."""
    cause = json.dumps({"errorType": error, "errorMessage": message}) if message else "unknown"
    return InvocationResult(error=error, cause=cause)


def unheard(_answer: InvocationResult) -> None:
    """The invoker does not wait for this answer."""


@dataclass
class Sandbox:
    """A function's process: it keeps what `build` returned, and its clock may be off."""

    skew_s: float
    version: int  # of the settings that it was deployed with
    runtime: Any = None


class Functions:
    """What Lambda does with the invocations of any function.

    `running`: how many have not ended.
    """

    def __init__(self, world: "World") -> None:
        self.world = world
        self.plan = world.plan
        self.timeline = world.timeline
        self.injector = world.injector
        self.running = 0
        self._counts: Counter[str] = Counter()

    def send(
        self,
        function: str,
        site: str,
        begin: Callable[[Answered, bool], None],
        answered: Answered,
        *,
        refused: InvocationResult | None = None,
        lost_after_s: float = 1.0,
    ) -> None:
        """Invoke as Step Functions does: one try, which ends with a call of `answered`.

        `begin` begins a run; it gets whom to tell, and whether the start is a cold one.
        """
        place = f"invoke:{function}@{site}"
        fault = self.injector.of_event(place, INVOKE_FAULTS, self.plan.mix.invokes)
        if fault == "throttled":
            refused = refused or THROTTLED
        if refused is not None:
            self.timeline.after(0.05, partial(answered, refused))
            return
        if fault == "lost":
            lost = InvocationResult(error="Lambda.SdkClientException")
            self.timeline.after(lost_after_s, partial(answered, lost))
            answered = unheard
        begin(answered, fault == "cold")
        if fault == "doubled":
            delay_s = 3 * unit(self.plan.seed, f"doubled:{site}")
            self.timeline.after(delay_s, partial(begin, unheard, False))


class Running:
    """One run of a handler. Its answer, its end or its timeout ends it, whichever comes first."""

    def __init__(
        self, functions: Functions, host: Host, timeout_s: float, answered: Answered
    ) -> None:
        self.timeline = functions.timeline
        self.host = host
        self.is_over = False
        self._functions = functions
        self._answered: Answered | None = answered
        self._ends_at = self.timeline.clock.now() + timedelta(seconds=timeout_s)
        self._deadline = self.timeline.after(timeout_s, self.timed_out)

    def timed_out(self) -> None:
        """Lambda ends it."""
        raise NotImplementedError

    def remaining_ms(self) -> int:
        left = self._ends_at - self.timeline.clock.now()
        return round(left.total_seconds() * 1_000)

    def answer(self, result: InvocationResult) -> None:
        """Tell the invoker, who hears it once. The invocation itself goes on."""
        answered, self._answered = self._answered, None
        if answered is not None:
            # The invoker continues in the timeline, not inside the process that ends.
            self.timeline.after(0.005, lambda: answered(result))

    def over(self, result: InvocationResult) -> None:
        """It ends, and the invoker hears of it unless it has heard already."""
        if not self.is_over:
            self.is_over = True
            self._functions.running -= 1
            self._deadline.cancel()
            self.answer(result)


class Lambda(Functions):
    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._warm: dict[str, list[Sandbox]] = {name: [] for name in world.stack.functions}
        self._version = 0
        self.began: list[Callable[[Host, Any], None]] = []
        self.failed: list[Callable[[Exception], None]] = []  # with what a handler raised

    def invoke(self, function: str, payload: Any, site: str, answered: Answered) -> None:
        """Invoke synchronously: one try, which ends with a call of `answered`."""
        if self.injector.is_out(function):
            cause = json.dumps({"errorMessage": "Unable to import module"})
            failed = InvocationResult(error="Runtime.ImportModuleError", cause=cause)
            self.timeline.after(0.3, partial(answered, failed))
            return
        self.send(function, site, partial(self._begin, function, payload, site), answered)

    def invoke_async(self, function: str, payload: Any, site: str, max_age_s: float) -> None:
        """Invoke as EventBridge does.

        A throttled invocation is repeated while the event is young, a failed one twice.
        """
        began = self.timeline.clock.now()

        def send(failures: int) -> None:
            def answered(answer: InvocationResult) -> None:
                if answer.error is None:
                    return
                age_s = (self.timeline.clock.now() - began).total_seconds()
                if answer == THROTTLED:
                    if age_s < max_age_s:
                        self.timeline.after(15, lambda: send(failures))
                elif failures < _RETRIES:
                    self.timeline.after(_RETRY_AFTER_S[failures], lambda: send(failures + 1))

            self.invoke(function, payload, site, answered)

        send(0)

    def _begin(
        self,
        function: str,
        payload: Any,
        site: str,
        answered: Answered,
        cold: bool,  # noqa: FBT001 - as `send` calls it
    ) -> None:
        self._counts[f"{function}@{site}"] += 1
        name = f"{function}@{site}#{self._counts[f'{function}@{site}']}"
        rng = rng_of(self.plan.seed, name)
        warm = self._warm[function]
        if cold or not warm or rng.random() < 0.1:
            skew_s = (2 * rng.random() - 1) * self.plan.mix.skew_s
            sandbox = Sandbox(skew_s, self._version)
            delay_s = 20.0 if cold else 0.4 + 1.6 * rng.random()
        else:
            sandbox = warm.pop()
            delay_s = 0.01
        event = json.loads(json.dumps(payload))  # as it goes over the wire
        self.running += 1
        self.timeline.after(
            delay_s,
            lambda: Invocation(self, HANDLERS[function], sandbox, name, rng, answered).begin(event),
        )

    def redeployed(self) -> None:
        """New invocations get new sandboxes, which read the settings of now."""
        for name in self._warm:
            self._warm[name] = []
        self._version += 1

    def timeout_s(self, function: str) -> int:
        return self.world.stack.functions[function].timeout_s

    def keep(self, function: str, sandbox: Sandbox) -> None:
        if sandbox.version == self._version:
            self._warm[function].append(sandbox)


class Invocation(Running):
    """One run of a handler of the product's."""

    def __init__(
        self,
        platform: Lambda,
        handler: ModuleType,
        sandbox: Sandbox,
        name: str,
        rng: Any,
        answered: Answered,
    ) -> None:
        self._platform = platform
        self._handler = handler
        self._function = name.partition("@")[0]
        self._sandbox = sandbox
        host = Host(platform.timeline, name, rng, sandbox.skew_s, FUNCTION)
        host.crashed = lambda: self.over(
            InvocationResult(error="Runtime.ExitError", cause="RequestId: 0 Error: exit 137")
        )
        super().__init__(platform, host, platform.timeout_s(self._function), answered)

    def begin(self, event: Any) -> None:
        for listener in self._platform.began:
            listener(self.host, event)

        def work() -> Any:
            if self._sandbox.runtime is None:
                self._sandbox.runtime = self._handler.build.__wrapped__()
            return json.dumps(self._handle(event, self._sandbox.runtime))

        self.host.run(work, self._ended)

    def timed_out(self) -> None:
        self.host.kill()
        self.over(InvocationResult(error="Sandbox.Timedout", cause="Task timed out"))

    def over(self, result: InvocationResult) -> None:
        self.host.alive = False
        super().over(result)

    def _handle(self, event: Any, runtime: Any) -> Any:
        """As `lambda_handler`, whose context knows the time that is left."""
        if self._function == "heartbeat":
            return self._handler.handle(event, runtime)
        until = runtime.context.deadline(self.remaining_ms())
        return self._handler.handle(event, runtime, until)

    def _ended(self, error: BaseException | None, text: Any) -> None:
        if error is not None and not isinstance(error, Exception):
            raise error
        self._platform.keep(self._function, self._sandbox)
        if error is None:
            self.over(InvocationResult(payload=json.loads(text)))
            return
        for listener in self._platform.failed:
            listener(error)
        cause = json.dumps({"errorMessage": str(error)})
        self.over(InvocationResult(error=type(error).__name__, cause=cause))
