"""Background work of the product's code, as processes of the timeline."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from greenlet import getcurrent

from longhaul.core.errors import TimeUpError
from simulation.aws.platform.hosts import Host, here, raise_error

if TYPE_CHECKING:
    from simulation.aws.platform.timeline import Event, Process

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
        self._waiting: Process | None = None  # for the end of that call
        self._process: Process | None = None  # the one that calls
        host.run(self._go_on, raise_error)

    def cancel(self, *, wait_s: float = 0) -> None:
        self._is_cancelled = True
        if self._next is not None:
            self._next.cancel()  # its process never goes on
        elif wait_s and getcurrent() is not self._process:
            self._wait(wait_s)

    def _wait(self, seconds: float) -> None:
        caller = cast("Process", getcurrent())
        self._waiting = caller
        end = here().timeline.after(seconds, caller.go_on)
        caller.give_way()
        self._waiting = None
        end.cancel()

    def _go_on(self) -> None:
        process = self._process = cast("Process", getcurrent())
        while not self._is_cancelled:
            self._next = self._host.timeline.after(self._period_s, process.go_on)
            process.give_way()
            self._next = None
            self._do()
        if self._waiting is not None:
            self._host.timeline.after(0, self._waiting.go_on)


class Batch(Generic[T]):
    """Tasks that some processes share, with the caller's among them unless its time is short."""

    def __init__(self, host: Host, tasks: Sequence[Callable[[], T]]) -> None:
        self._host = host
        self._tasks = tasks
        self._results: list[T | None] = [None] * len(tasks)
        self._begun = 0
        self._helpers = 0  # at work
        self._caller: Process | None = None  # when it waits for them
        self._error: Exception | None = None

    def run(self, at_once: int, within_s: float | None) -> list[T]:
        helpers = min(at_once, len(self._tasks))
        for _ in range(helpers if within_s is not None else helpers - 1):
            self._helpers += 1
            self._host.run(self._work, self._helper_ended)
        if within_s is None:
            self._work()
        if self._helpers:
            self._wait(within_s)
        if self._helpers:
            self._begun = len(self._tasks)
            raise TimeUpError
        if self._error is not None:
            raise self._error
        return cast("list[T]", self._results)

    def _wait(self, within_s: float | None) -> None:
        caller = self._caller = cast("Process", getcurrent())
        if within_s is not None:
            self._host.timeline.after(within_s, self._wake)
        caller.give_way()

    def _wake(self) -> None:
        """Once: the last helper may end at the moment when the time is up."""
        caller, self._caller = self._caller, None
        if caller is not None:
            caller.go_on()

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
            self._host.timeline.after(0, self._wake)
