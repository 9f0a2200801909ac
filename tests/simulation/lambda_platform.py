"""Lambda: invocations of the real handlers, in sandboxes that are cold or warm, with the functions' timeouts."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from functions import dispatcher, heartbeat, settle, sweeper
from tests.simulation.hosts import Host
from tests.simulation.injection import Injector
from tests.simulation.plan import Plan
from tests.simulation.randomness import rng_of, unit
from tests.simulation.template import Function
from tests.simulation.timeline import Timeline

HANDLERS: Mapping[str, ModuleType] = {
    "dispatcher": dispatcher,
    "heartbeat": heartbeat,
    "settle": settle,
    "sweeper": sweeper,
}
FUNCTION = frozenset({"function"})
_INVOKE_FAULTS = ("throttled", "lost", "doubled", "cold")
_RETRIES = 2  # of an asynchronous invocation whose function failed
_RETRY_AFTER_S = (60.0, 120.0)

Answered = Callable[["Answer"], None]


class Answer(NamedTuple):
    """What an invoker hears: a payload, or an error's name."""

    payload: Any = None
    error: str | None = None
    cause: str = ""


class Sandbox:
    """A function's process: it keeps what `build_runtime` made, and has a clock that is a little wrong."""

    def __init__(self, name: str, skew_s: float) -> None:
        self.name = name
        self.skew_s = skew_s
        self.runtime: Any = None


class Lambda:
    def __init__(self, plan: Plan, timeline: Timeline, injector: Injector, functions: Mapping[str, Function]) -> None:
        self._plan = plan
        self._timeline = timeline
        self._injector = injector
        self._functions = functions
        self._warm: dict[str, list[Sandbox]] = {name: [] for name in functions}
        self._counts: Counter[str] = Counter()
        self._cold_starts = 0
        self.invoked: list[Callable[[str, str, Any], None]] = []  # hears of each invocation: function, site, payload
        self.began: list[Callable[[Host, Any], None]] = []
        self.running = 0

    def invoke(self, function: str, payload: Any, site: str, answered: Answered) -> None:
        """Synchronously: one try, whose end is told to the invoker."""
        for listener in self.invoked:
            listener(function, site, payload)
        fault = self._injector.of_event(f"invoke:{function}@{site}", _INVOKE_FAULTS, self._plan.mix.invokes)
        if fault == "throttled":
            self._timeline.after(
                0.05, lambda: answered(Answer(error="Lambda.TooManyRequestsException", cause="Rate Exceeded."))
            )
            return
        if fault == "lost":
            invoker, answered = answered, _nobody
            self._timeline.after(1.0, lambda: invoker(Answer(error="Lambda.SdkClientException", cause="")))
        if fault == "doubled":
            delay = 3 * unit(self._plan.seed, f"doubled:{site}")
            self._timeline.after(delay, lambda: self._begin(function, payload, site, _nobody, cold=False))
        self._begin(function, payload, site, answered, cold=fault == "cold")

    def invoke_async(self, function: str, payload: Any, site: str, max_age_s: float) -> None:
        """As EventBridge does it: throttles are tried again while the event is young, a failing function twice."""
        began = self._timeline.clock.now()

        def send(failures: int) -> None:
            def answered(answer: Answer) -> None:
                if answer.error is None:
                    return
                age_s = (self._timeline.clock.now() - began).total_seconds()
                if answer.error == "Lambda.TooManyRequestsException":
                    if age_s < max_age_s:
                        self._timeline.after(15, lambda: send(failures))
                elif failures < _RETRIES:
                    self._timeline.after(_RETRY_AFTER_S[failures], lambda: send(failures + 1))

            self.invoke(function, payload, site, answered)

        send(0)

    def _begin(self, function: str, payload: Any, site: str, answered: Answered, *, cold: bool) -> None:
        self._counts[f"{function}@{site}"] += 1
        name = f"{function}@{site}#{self._counts[f'{function}@{site}']}"
        rng = rng_of(self._plan.seed, name)
        warm = self._warm[function]
        if cold or not warm or rng.random() < 0.1:
            self._cold_starts += 1
            sandbox = Sandbox(f"{function}.{self._cold_starts}", (2 * rng.random() - 1) * self._plan.mix.skew_s)
            delay_s = 20.0 if cold else 0.4 + 1.6 * rng.random()
        else:
            sandbox = warm.pop()
            delay_s = 0.01
        # What the invoker sent travels as JSON.
        event = json.loads(json.dumps(payload))
        self.running += 1
        self._timeline.after(
            delay_s, lambda: Invocation(self, HANDLERS[function], sandbox, name, rng, answered).begin(event)
        )

    def timeout_s(self, function: str) -> int:
        return self._functions[function].timeout_s

    def keep(self, function: str, sandbox: Sandbox) -> None:
        self._warm[function].append(sandbox)

    @property
    def timeline(self) -> Timeline:
        return self._timeline


class Invocation:
    """One run of a handler. It ends with its answer, its error, its crash or its timeout, whichever comes first."""

    def __init__(
        self, platform: Lambda, handler: ModuleType, sandbox: Sandbox, name: str, rng: Any, answered: Answered
    ) -> None:
        self._platform = platform
        self._handler = handler
        self._function = name.partition("@")[0]
        self._sandbox = sandbox
        self._answered: Answered | None = answered
        self.host = Host(platform.timeline, name, rng, sandbox.skew_s, FUNCTION)
        self.host.crashed = lambda: self._over(Answer(error="Runtime.ExitError", cause="RequestId: 0 Error: exit 137"))
        self._deadline = platform.timeline.after(platform.timeout_s(self._function), self._timed_out)

    def begin(self, event: Any) -> None:
        for listener in self._platform.began:
            listener(self.host, event)

        def work() -> Any:
            if self._sandbox.runtime is None:
                self._sandbox.runtime = self._handler.build_runtime.__wrapped__()
            return json.dumps(self._handler.handle(event, self._sandbox.runtime))

        self.host.run(work, self._ended)

    def _ended(self, error: BaseException | None, text: Any) -> None:
        if error is None:
            self._platform.keep(self._function, self._sandbox)
            self._over(Answer(payload=json.loads(text)))
        elif isinstance(error, Exception):
            self._platform.keep(self._function, self._sandbox)
            self._over(Answer(error=type(error).__name__, cause=json.dumps({"errorMessage": str(error)})))
        else:
            raise error

    def _timed_out(self) -> None:
        self.host.kill()
        self._over(Answer(error="Sandbox.Timedout", cause="Task timed out"))

    def _over(self, answer: Answer) -> None:
        answered, self._answered = self._answered, None
        if answered is None:
            return
        self._platform.running -= 1
        self._deadline.cancel()
        self.host.alive = False
        # Not from inside of the process that ends: the one who hears of it goes on in the timeline.
        self._platform.timeline.after(0.005, lambda: answered(answer))


def _nobody(_answer: Answer) -> None:
    """The invoker has gone."""
