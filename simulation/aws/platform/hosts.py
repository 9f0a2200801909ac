"""Where the product's code runs: a function's sandbox during an invocation, a container, a shell.

A host has processes, a clock of its own, and an end.
"""

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, NoReturn, TypeVar, cast

from greenlet import GreenletExit, getcurrent

from longhaul.core.errors import TimeUpError
from simulation.aws.platform.timeline import Event, Process, Timeline

PLATFORM = frozenset({"platform"})
"""The traits of calls that a service of AWS makes by itself."""


class Host:
    """All processes of a host end with it.

    `name` is its place in the plan; the sites of faults are named after it.
    """

    def __init__(
        self,
        timeline: Timeline,
        name: str,
        rng: random.Random,
        skew_s: float = 0.0,
        traits: frozenset[str] = frozenset(),
    ) -> None:
        self.timeline = timeline
        self.name = name
        self.rng = rng
        self.skew = timedelta(milliseconds=round(skew_s * 1000))
        self.alive = True
        self.is_frozen = False
        self.is_cut_off = False  # its calls are not answered
        # Whether its environment names the region: Lambda and Fargate set it.
        self.has_region = True
        self.calls = 0
        self.crashed: Callable[[], None] = lambda: None  # called when a fault ends it
        self.traits = traits
        self.facts: dict[str, Any] = {}  # for the notes of invariants
        self._processes: list[Process] = []

    def run(
        self, work: Callable[[], Any], ended: Callable[[BaseException | None, Any], None]
    ) -> Process:
        process = self.timeline.spawn(work, ended=ended)
        process.host = self
        process.is_frozen = self.is_frozen
        self._processes.append(process)
        return process

    def kill(self) -> None:
        """As SIGKILL. A process that kills its own host must then raise GreenletExit."""
        self.alive = False
        for process in self._processes:
            process.kill()
        self._processes.clear()

    def freeze(self) -> None:
        """All its processes stand still, wherever they are."""
        self.is_frozen = True
        for process in self._processes:
            process.is_frozen = True

    def thaw(self) -> None:
        """They go on. What should have happened meanwhile happens now."""
        self.is_frozen = False
        for process in self._processes:
            if process.thaw():
                self.timeline.after(0, process.go_on)


def raise_error(error: BaseException | None, _result: object) -> None:
    """The end of a process whose errors are mistakes of the simulation or the product."""
    if error is not None:
        raise error


def current_host() -> Host | None:
    return getattr(getcurrent(), "host", None)


def here() -> Host:
    """The host of the calling process."""
    host = current_host()
    if host is None:
        raise AssertionError("the product's code runs only on a host")
    if not host.alive:
        # A killed process unwinds when it is collected: what it does meanwhile has no effect.
        raise GreenletExit
    return host


def wait_for_good() -> NoReturn:
    """The calling process hangs; the others of its host go on."""
    cast("Process", getcurrent()).give_way()
    raise GreenletExit


class Waiter:
    """A process that waits until it is woken or its time is up."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._caller: Process | None = None

    def wait(self, seconds: float | None) -> None:
        """Let the calling process wait; None: without a limit."""
        caller = self._caller = cast("Process", getcurrent())
        end = None if seconds is None else self._timeline.after(seconds, self.wake)
        caller.give_way()
        if end is not None:
            end.cancel()

    def wake(self) -> None:
        """Once: what it waits for may happen at the moment when the time is up."""
        caller, self._caller = self._caller, None
        if caller is not None:
            caller.go_on()

    def wake_soon(self) -> None:
        """Not inside the process that calls."""
        self._timeline.after(0, self.wake)


class HostClock:
    """`ports.Clock` for code that runs on hosts. Each host's clock has its own error."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now(self) -> datetime:
        return self._timeline.clock.now() + here().skew

    def sleep(self, seconds: float) -> None:
        here()
        self._timeline.sleep(seconds)


T = TypeVar("T")


class HostBackground:
    """Implements `ports.Background`. All that it does ends with the host."""

    def __init__(self, host_of: Callable[[], Host] = here) -> None:
        """`host_of` gives the host of the work: that of the caller, unless it is known."""
        self._host_of = host_of

    def after(self, seconds: float, do: Callable[[], None]) -> "Once":
        return Once(self._host_of(), seconds, do)

    def every(self, period_s: float, do: Callable[[], None]) -> "Repeated":
        return Repeated(self._host_of(), period_s, do)

    def run_all(
        self, tasks: Sequence[Callable[[], T]], *, at_once: int, within_s: float | None = None
    ) -> list[T]:
        if len(tasks) < 2 and within_s is None:
            return [task() for task in tasks]
        if within_s is not None and within_s <= 0:
            raise TimeUpError
        return Batch(self._host_of(), tasks).run(at_once, within_s)


class Once:
    """Implements `ports.Timer`."""

    def __init__(self, host: Host, seconds: float, do: Callable[[], None]) -> None:
        def begin() -> None:
            if host.alive:
                host.run(do, raise_error)

        self._event = host.timeline.after(seconds, begin)

    def cancel(self, *, wait_s: float = 0) -> None:
        if wait_s:
            raise NotImplementedError("nothing waits for a call that comes once")
        self._event.cancel()


class Repeated:
    """Implements `ports.Timer`: one process, which waits between the calls."""

    def __init__(self, host: Host, period_s: float, do: Callable[[], None]) -> None:
        self._host = host
        self._period_s = period_s
        self._do = do
        self._is_cancelled = False
        self._next: Event | None = None  # None: a call is on its way
        self._call_ended = Waiter(host.timeline)
        self._process: Process | None = None  # the one that calls
        host.run(self._go_on, raise_error)

    def cancel(self, *, wait_s: float = 0) -> None:
        self._is_cancelled = True
        if self._next is not None:
            self._next.cancel()  # its process never goes on
        elif wait_s and getcurrent() is not self._process:
            self._call_ended.wait(wait_s)

    def _go_on(self) -> None:
        process = self._process = cast("Process", getcurrent())
        while not self._is_cancelled:
            self._next = self._host.timeline.after(self._period_s, process.go_on)
            process.give_way()
            self._next = None
            self._do()
        self._call_ended.wake_soon()


class Batch(Generic[T]):
    """Tasks that some processes share, with the caller's among them unless its time is short."""

    def __init__(self, host: Host, tasks: Sequence[Callable[[], T]]) -> None:
        self._host = host
        self._tasks = tasks
        self._results: list[T | None] = [None] * len(tasks)
        self._begun = 0
        self._helpers = 0  # at work
        self._all_ended = Waiter(host.timeline)
        self._error: Exception | None = None

    def run(self, at_once: int, within_s: float | None) -> list[T]:
        helpers = min(at_once, len(self._tasks))
        for _ in range(helpers if within_s is not None else helpers - 1):
            self._helpers += 1
            self._host.run(self._work, self._helper_ended)
        if within_s is None:
            self._work()
        if self._helpers:
            self._all_ended.wait(within_s)
        if self._helpers:
            self._begun = len(self._tasks)
            raise TimeUpError
        if self._error is not None:
            raise self._error
        return cast("list[T]", self._results)

    def _work(self) -> None:
        while self._begun < len(self._tasks) and self._error is None:
            number = self._begun
            self._begun += 1
            try:
                self._results[number] = self._tasks[number]()
            except Exception as error:  # noqa: BLE001 - raised to the caller
                self._error = self._error or error

    def _helper_ended(self, error: BaseException | None, result: object) -> None:
        raise_error(error, result)
        self._helpers -= 1
        if not self._helpers:
            self._all_ended.wake_soon()
