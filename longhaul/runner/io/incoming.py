"""The inputs of an attempt: listed before its job begins, and brought beside it.

stage ──► listed: sizes and digests, disk checked ──► bring ─────────────► end
job                     runs from here on, waits for the inputs that it asks for
"""

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from mmap import mmap
from typing import Final

from longhaul.adapters.background import Threads
from longhaul.adapters.clock import SystemClock
from longhaul.ports import Background, Clock
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.transfer import InputChangingError
from longhaul.runner.stopping import Stop, StopReason, StopRequestedError

# Who waits looks again after a twentieth of the time that it has waited, within these limits.
_LOOKS: Final = 20
_SHORTEST_LOOK_S: Final = 0.01
_LONGEST_LOOK_S: Final = 0.5


def _nothing(_: "Incoming") -> None:
    """All are there."""


def _no_one() -> None:
    """Nothing depends on the list."""


class _SharedNames:
    """A set of names out of some, which a process shares with those that are forked from it."""

    def __init__(self, names: Iterable[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._is_there = mmap(-1, max(1, len(self._places)))

    def __contains__(self, name: str) -> bool:
        return bool(self._is_there[self._places[name]])

    def add(self, *names: str) -> None:
        for name in names:
            self._is_there[self._places[name]] = 1

    def remove(self, *names: str) -> None:
        for name in names:
            self._is_there[self._places[name]] = 0


@dataclass
class Incoming:
    """`stop` is the attempt's: an input that cannot be brought requests it.

    `bring_all` brings what is not there yet, heeds `halt`, and calls `arrive` for each input.
    """

    inputs: Mapping[str, StagedInput]
    stop: Stop = field(default_factory=Stop)
    bring_all: "Callable[[Incoming], None]" = _nothing
    # When inputs were listed once more, and are others now.
    on_change: Callable[[], None] = _no_one
    # Of the download alone: it also ends with the job.
    halt: Stop = field(default_factory=Stop)
    clock: Clock = field(default_factory=SystemClock)
    _arrived: _SharedNames = field(init=False)
    _given: _SharedNames = field(init=False)
    # By processes that the job has forked.
    _asked: _SharedNames = field(init=False)
    # Those that the job waits for, the first one first.
    _wanted: list[str] = field(default_factory=list)
    _is_coming: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self._arrived, self._given, self._asked = (_SharedNames(self.inputs) for _ in range(3))

    @classmethod
    def of(cls, inputs: Mapping[str, StagedInput]) -> "Incoming":
        """Inputs that are there."""
        there = cls(inputs)
        there.arrive(*inputs)
        return there

    def bring(self) -> Mapping[str, StagedInput]:
        """Bring all in this thread. Raises what `bring_all` raises."""
        self.stop.on_request(self._stopped)
        self.bring_all(self)
        self.bring_all = _nothing  # a million listed files are not kept while the job runs
        return self.inputs

    def begin(
        self,
        background: Background = Threads(),  # noqa: B008 - stateless
        clock: Clock = SystemClock(),  # noqa: B008 - as above
    ) -> None:
        """Bring what is not there yet in the background."""
        self.clock = clock
        if all(map(self.has, self.inputs)):
            return
        self._is_coming = True
        background.after(0, self._run)

    def has(self, name: str) -> bool:
        return name in self._arrived

    def await_input(self, name: str) -> None:
        """Wait until the input is there.

        It looks again and again: a process that the job has forked can be told of nothing.

        Raises:
            StopRequestedError: the attempt has to stop, or the input cannot be brought.
        """
        is_forked, parent = os.getpid() != self._process, os.getppid()
        began_at = self.clock.now()
        if is_forked:
            self._asked.add(name)
        elif not self.has(name):
            with self._lock:
                self._wanted.append(name)
        while not self._take(name, is_forked=is_forked):
            self.stop.check()
            if is_forked and os.getppid() != parent:
                raise StopRequestedError("the attempt has ended")
            waited_s = (self.clock.now() - began_at).total_seconds()
            self.clock.sleep(min(max(waited_s / _LOOKS, _SHORTEST_LOOK_S), _LONGEST_LOOK_S))

    def _take(self, name: str, *, is_forked: bool) -> bool:
        """Whether the input is there. Then the job uses it, and it may not change any more."""
        if is_forked:  # the lock may have been taken when it was forked, and is so for good
            self._given.add(name)  # before it looks: `replace` does the reverse
            return name in self._arrived
        with self._lock:
            if name in self._arrived:
                self._given.add(name)
            return name in self._arrived

    def use_as_listed(self, *names: str) -> None:
        """Let inputs not change any more: the job knows something of them."""
        known = [name for name in names if name in self.inputs]
        if os.getpid() != self._process:  # as in `_take`
            self._given.add(*known)
            return
        with self._lock:
            self._given.add(*known)

    def next_of(self, names: Collection[str]) -> str:
        """Which one of the inputs has its turn: one for which the job waits, or the first."""
        with self._lock:
            wanted = next((name for name in self._wanted if name in names), None)
        return wanted or next(filter(self._asked.__contains__, names), next(iter(names)))

    def arrive(self, *names: str) -> None:
        with self._lock:
            self._arrived.add(*names)
            self._wanted = [name for name in self._wanted if name not in self._arrived]

    def replace(
        self, inputs: Mapping[str, StagedInput], follow: Callable[[], None]
    ) -> frozenset[str]:
        """Have these inputs as they were listed now; returns those that are to be brought again.

        `follow` is called if that is done.

        Raises:
            InputChangingError: the job uses one that has changed.
            StopRequestedError: nothing more is needed.
        """
        with self._lock:
            self.halt.check()
            changed = {
                name for name, each in inputs.items() if each.digest != self.inputs[name].digest
            }
            self._arrived.remove(*changed)
            if used := sorted(name for name in changed if name in self._given):
                raise InputChangingError(
                    f"an input keeps changing while it is read: {used[0]!r} has changed since the"
                    " job began to use it"
                )
            self.inputs = {**self.inputs, **inputs}
            follow()
            again = frozenset(name for name in inputs if not self.has(name))
        if changed:
            self.on_change()
        return again

    def end(self, *, wait_s: float = 0) -> None:
        """Bring nothing more, as the job has ended: what it has not asked for is not needed."""
        with self._lock:
            self.halt.request(StopReason.TERMINATED, "the job has ended")
        until = self.clock.now() + timedelta(seconds=wait_s)
        while self._is_coming and self.clock.now() < until:
            self.clock.sleep(_SHORTEST_LOOK_S)

    def _run(self) -> None:
        try:
            self.bring()
        except Exception as error:  # noqa: BLE001 - becomes the failure of the attempt
            if not self.halt.requested:
                self.stop.request(StopReason.INPUT, str(error), cause=error)
        finally:
            self._is_coming = False

    def _stopped(self) -> None:
        self.halt.request(StopReason.TERMINATED, "the attempt has to stop")
