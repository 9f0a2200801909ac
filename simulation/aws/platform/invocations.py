"""Lambda: invocations of the real handlers in cold or warm sandboxes, with their timeouts."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import ModuleType
from typing import Any, NamedTuple

from functions import dispatcher, heartbeat, settle, sweeper
from simulation.aws.platform.hosts import Host
from simulation.aws.platform.timeline import Timeline
from simulation.aws.template import Function
from simulation.worlds.injection import Injector
from simulation.worlds.plan import Plan
from simulation.worlds.randomness import rng_of, unit

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


def failed(error: str, message: str) -> InvocationResult:
    """As Step Functions says it; of `Lambda.Unknown` there is no more than its name."""
    cause = json.dumps({"errorType": error, "errorMessage": message}) if message else "unknown"
    return InvocationResult(error=error, cause=cause)


def unheard(_answer: InvocationResult) -> None:
    """The invoker does not wait for this answer."""


class Sandbox:
    """A function's process: it keeps what `build` returned, and its clock may be off."""

    def __init__(self, name: str, skew_s: float, version: int) -> None:
        self.name = name
        self.skew_s = skew_s
        self.version = version  # of the settings that it was deployed with
        self.runtime: Any = None


class Lambda:
    def __init__(
        self, plan: Plan, timeline: Timeline, injector: Injector, functions: Mapping[str, Function]
    ) -> None:
        self._plan = plan
        self.timeline = timeline
        self._injector = injector
        self._functions = functions
        self._warm: dict[str, list[Sandbox]] = {name: [] for name in functions}
        self._counts: Counter[str] = Counter()
        self._cold_starts = 0
        self._version = 0
        self.began: list[Callable[[Host, Any], None]] = []
        self.failed: list[Callable[[Exception], None]] = []  # with what a handler raised
        self.running = 0

    def invoke(self, function: str, payload: Any, site: str, answered: Answered) -> None:
        """Invoke synchronously: one try, which ends with a call of `answered`."""
        if self._injector.is_out(function):
            cause = json.dumps({"errorMessage": "Unable to import module"})
            failed = InvocationResult(error="Runtime.ImportModuleError", cause=cause)
            self.timeline.after(0.3, lambda: answered(failed))
            return
        fault = self._injector.of_event(
            f"invoke:{function}@{site}", INVOKE_FAULTS, self._plan.mix.invokes
        )
        if fault == "throttled":
            self.timeline.after(
                0.05,
                lambda: answered(
                    InvocationResult(
                        error="Lambda.TooManyRequestsException", cause="Rate Exceeded."
                    )
                ),
            )
            return
        if fault == "lost":
            invoker, answered = answered, unheard
            self.timeline.after(
                1.0, lambda: invoker(InvocationResult(error="Lambda.SdkClientException", cause=""))
            )
        if fault == "doubled":
            delay = 3 * unit(self._plan.seed, f"doubled:{site}")
            self.timeline.after(
                delay, lambda: self._begin(function, payload, site, unheard, cold=False)
            )
        self._begin(function, payload, site, answered, cold=fault == "cold")

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
                if answer.error == "Lambda.TooManyRequestsException":
                    if age_s < max_age_s:
                        self.timeline.after(15, lambda: send(failures))
                elif failures < _RETRIES:
                    self.timeline.after(_RETRY_AFTER_S[failures], lambda: send(failures + 1))

            self.invoke(function, payload, site, answered)

        send(0)

    def _begin(
        self, function: str, payload: Any, site: str, answered: Answered, *, cold: bool
    ) -> None:
        self._counts[f"{function}@{site}"] += 1
        name = f"{function}@{site}#{self._counts[f'{function}@{site}']}"
        rng = rng_of(self._plan.seed, name)
        warm = self._warm[function]
        if cold or not warm or rng.random() < 0.1:
            self._cold_starts += 1
            sandbox = Sandbox(
                f"{function}.{self._cold_starts}",
                (2 * rng.random() - 1) * self._plan.mix.skew_s,
                self._version,
            )
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
        return self._functions[function].timeout_s

    def keep(self, function: str, sandbox: Sandbox) -> None:
        if sandbox.version == self._version:
            self._warm[function].append(sandbox)


class Invocation:
    """One run of a handler; its answer, error, crash or timeout ends it, whichever comes first."""

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
        self._answered: Answered | None = answered
        self.host = Host(platform.timeline, name, rng, sandbox.skew_s, FUNCTION)
        self.host.crashed = lambda: self._over(
            InvocationResult(error="Runtime.ExitError", cause="RequestId: 0 Error: exit 137")
        )
        timeout_s = platform.timeout_s(self._function)
        self._ends_at = platform.timeline.clock.now() + timedelta(seconds=timeout_s)
        self._deadline = platform.timeline.after(timeout_s, self._timed_out)

    def begin(self, event: Any) -> None:
        for listener in self._platform.began:
            listener(self.host, event)

        def work() -> Any:
            if self._sandbox.runtime is None:
                self._sandbox.runtime = self._handler.build.__wrapped__()
            return json.dumps(self._handle(event, self._sandbox.runtime))

        self.host.run(work, self._ended)

    def _handle(self, event: Any, runtime: Any) -> Any:
        """As `lambda_handler`, whose context knows the time that is left."""
        if self._function == "heartbeat":
            return self._handler.handle(event, runtime)
        left = self._ends_at - self._platform.timeline.clock.now()
        until = runtime.context.deadline(round(left.total_seconds() * 1_000))
        return self._handler.handle(event, runtime, until)

    def _ended(self, error: BaseException | None, text: Any) -> None:
        if error is None:
            self._platform.keep(self._function, self._sandbox)
            self._over(InvocationResult(payload=json.loads(text)))
        elif isinstance(error, Exception):
            for listener in self._platform.failed:
                listener(error)
            self._platform.keep(self._function, self._sandbox)
            self._over(
                InvocationResult(
                    error=type(error).__name__, cause=json.dumps({"errorMessage": str(error)})
                )
            )
        else:
            raise error

    def _timed_out(self) -> None:
        self.host.kill()
        self._over(InvocationResult(error="Sandbox.Timedout", cause="Task timed out"))

    def _over(self, answer: InvocationResult) -> None:
        answered, self._answered = self._answered, None
        if answered is None:
            return
        self._platform.running -= 1
        self._deadline.cancel()
        self.host.alive = False
        # The invoker continues in the timeline, not inside the process that ends.
        self._platform.timeline.after(0.005, lambda: answered(answer))
