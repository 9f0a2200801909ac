"""One heap of events and one virtual clock: all that happens in a world, in the order of time, and nothing while nobody looks.

Code that was written to run in a process of its own (a function's handler, the runner) runs as a `Process`: a greenlet that gives way whenever it waits. So real,
unchanged code interleaves with everything else at each call that it makes, and can be killed there. With the same seed a world goes the same way again.
"""

import heapq
from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Any, Protocol
from weakref import WeakSet

from greenlet import GreenletExit, getcurrent, greenlet

from tests.fakes.clock import VirtualClock, milliseconds


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Event:
    """Something that is to happen; `cancel` makes it not happen."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Timeline:
    """Events at the same instant happen in the order in which they were planned."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._heap: list[tuple[int, int, Event]] = []  # by the clock's milliseconds
        self._order = count()
        self._processes: WeakSet[Process] = WeakSet()

    def after(self, seconds: float, action: Callable[[], None]) -> Event:
        """Plan an event."""
        event = Event(action)
        at = self.clock.ms + milliseconds(seconds) if seconds > 0 else self.clock.ms
        heapq.heappush(self._heap, (at, next(self._order), event))
        return event

    def step(self, until: datetime) -> bool:
        """Let the next event happen, if there is one until then. False: there is none, and the clock stands at `until`."""
        heap, clock = self._heap, self.clock
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        end = clock.ms_of(until)
        if not heap or heap[0][0] > end:
            clock.advance_to_ms(max(end, clock.ms))
            return False
        at, _, event = heapq.heappop(heap)
        clock.advance_to_ms(max(at, clock.ms))
        action, event.action = event.action, None
        if action is not None:
            action()
        return True

    def spawn(self, work: Callable[[], Any], *, ended: Callable[[BaseException | None, Any], None]) -> "Process":
        """Run `work` as a process, beginning now; `ended` hears of its end: what it raised, what it answered. A killed process tells nobody."""
        process = Process(work, ended)
        self._processes.add(process)
        self.after(0, process.go_on)
        return process

    def close(self) -> None:
        """Nothing happens any more: processes that still wait are unwound. Left waiting, their stacks would keep all of the world, for no garbage collection looks into them."""
        self._heap.clear()
        for process in list(self._processes):
            process.unwind()

    def sleep(self, seconds: float) -> None:
        """From inside a process: give way for that long. From outside of any, time just moves on."""
        current = getcurrent()
        if isinstance(current, Process):
            if not current.killed:
                self.after(seconds, current.go_on)
            current.give_way()
        else:
            self.clock.advance(seconds)


class Process(greenlet):  # type: ignore[misc]
    """A piece of sequential code that waits, goes on, and can be killed wherever it waits."""

    def __init__(self, work: Callable[[], Any], ended: Callable[[BaseException | None, Any], None]) -> None:
        super().__init__(self._run)
        self._work = work
        self._ended = ended
        self.killed = False

    def go_on(self) -> None:
        """Until it waits again, or ends. A process that was killed stays where it is."""
        if not self.killed and not self.dead:
            self.parent = getcurrent()
            self.switch()

    def give_way(self) -> None:
        if self.killed:  # it is being thrown away, and unwinds
            raise GreenletExit
        self.parent.switch()

    def unwind(self) -> None:
        self.kill()
        if not self.dead:
            self.parent = getcurrent()
            self.throw()

    def kill(self) -> None:
        """As SIGKILL: it never goes on, no handler of its own runs any more."""
        self.killed = True

    def _run(self) -> None:
        try:
            answer = self._work()
        except GreenletExit:
            return
        except BaseException as error:  # noqa: BLE001 - whoever waits for the process gets it
            self._ended(error, None)
        else:
            self._ended(None, answer)
