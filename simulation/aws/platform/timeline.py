"""The events of a world, in the order of virtual time.

Code of a process of its own (a function's handler, the runner) runs as a `Process`: a greenlet that
gives way whenever it waits. So real, unchanged code interleaves with everything else at each of its
calls, and can be killed there. The same seed gives the same order.
"""

import heapq
from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

from simulation.aws.clock import VirtualClock, milliseconds


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Event:
    """A scheduled action; `cancel` drops it."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self.action: Callable[[], object] | None = action

    def cancel(self) -> None:
        self.action = None


class Timeline:
    """A heap of events and a clock; events of one instant happen in the order of scheduling."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._heap: list[tuple[int, int, Event]] = []  # by the clock's milliseconds
        self._order = count()
        self._processes: set[Process] = set()  # that have not ended
        self._until: tuple[datetime | None, int] = (
            None,
            0,
        )  # of the last step, in milliseconds too

    def after(self, seconds: float, action: Callable[[], object]) -> Event:
        """Schedule an event."""
        event = Event(action)
        at = self.clock.ms
        if seconds > 0:
            at += milliseconds(seconds)
        heapq.heappush(self._heap, (at, next(self._order), event))
        return event

    def step(self, until: datetime) -> bool:
        """Run the next event, if there is one until then.

        Returns False when there is none; the clock is then at `until`.
        """
        heap, clock = self._heap, self.clock
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        if self._until[0] is not until:
            self._until = until, clock.ms_of(until)
        end = self._until[1]
        if not heap or heap[0][0] > end:
            clock.advance_to_ms(max(end, clock.ms))
            return False
        at, _, event = heapq.heappop(heap)
        if at > clock.ms:
            clock.advance_to_ms(at)
        action, event.action = event.action, None
        if action is not None:
            action()
        return True

    def spawn(
        self, work: Callable[[], Any], *, ended: Callable[[BaseException | None, Any], None]
    ) -> "Process":
        """Start `work` as a process now.

        `ended` is called with what it raised and what it returned, unless it was killed.
        """
        process = Process(work, ended, self._processes.discard)
        self._processes.add(process)
        self.after(0, process.go_on)
        return process

    def close(self) -> None:
        """End all: drop the events, and unwind the processes that still wait.

        Garbage collection does not search their stacks, so these would keep the whole world.
        """
        self._heap.clear()
        for process in list(self._processes):
            process.unwind()

    def sleep(self, seconds: float) -> None:
        """Let a process give way for that long; outside of processes, advance the clock."""
        current = getcurrent()
        if isinstance(current, Process):
            if not current.killed:
                self.after(seconds, current.go_on)
            current.give_way()
        else:
            self.clock.advance(seconds)


class Process(greenlet):  # type: ignore[misc]
    """Sequential code that can be killed wherever it waits."""

    def __init__(
        self,
        work: Callable[[], Any],
        ended: Callable[[BaseException | None, Any], None],
        over: Callable[["Process"], None],
    ) -> None:
        super().__init__(self._run)
        self._work = work
        self._ended = ended
        self._over = over  # called with itself, whatever ended it
        self.killed = False
        self.is_frozen = False
        self._is_due = False  # to go on once it is thawed

    def go_on(self) -> None:
        """Run until it waits again, or ends. A killed or frozen process does not run."""
        if self.is_frozen:
            self._is_due = True
        elif not self.killed and not self.dead:
            self.parent = getcurrent()
            self.switch()

    def thaw(self) -> bool:
        """Let it run again; whether it has something to do."""
        self.is_frozen = False
        is_due, self._is_due = self._is_due, False
        return is_due

    def give_way(self) -> None:
        if self.killed:  # it is being unwound
            raise GreenletExit
        self.parent.switch()

    def unwind(self) -> None:
        self.kill()
        if not self.dead:
            self.parent = getcurrent()
            self.throw()

    def kill(self) -> None:
        """SIGKILL: it never runs again, nor do its exception handlers."""
        self.killed = True

    def _run(self) -> None:
        try:
            answer = self._work()
        except GreenletExit:
            return
        except BaseException as error:  # noqa: BLE001 - `ended` gets it
            self._ended(error, None)
        else:
            self._ended(None, answer)
        finally:
            self._over(self)
