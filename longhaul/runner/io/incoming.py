"""The inputs of an attempt: listed before its job begins, and brought beside it.

stage ──► listed: sizes and digests, disk checked ──► bring ─────────────► end
job                     runs from here on, waits for the inputs that it asks for
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from mmap import mmap
from typing import Final

from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.transfer import InputChangingError
from longhaul.runner.stopping import Stop, StopReason, StopRequestedError

_LOOK_AGAIN_S: Final = 0.05


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
    _arrived: _SharedNames = field(init=False)
    _given: _SharedNames = field(init=False)
    # Those that the job waits for, the first one first.
    _wanted: list[str] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _news: threading.Condition = field(default_factory=threading.Condition)
    _process: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self._arrived, self._given = _SharedNames(self.inputs), _SharedNames(self.inputs)

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

    def begin(self) -> None:
        """Bring what is not there yet in the background."""
        if all(map(self.has, self.inputs)):
            return
        self._thread = threading.Thread(target=self._run, name="staging", daemon=True)
        self._thread.start()

    def has(self, name: str) -> bool:
        return name in self._arrived

    def await_input(self, name: str) -> None:
        """Wait until the input is there.

        Raises:
            StopRequestedError: the attempt has to stop, or the input cannot be brought.
        """
        if os.getpid() != self._process:
            self._await_in_fork(name)
            return
        with self._news:
            if name not in self._arrived:
                self._wanted.append(name)
            while name not in self._arrived:
                self.stop.check()
                self._news.wait()
            self._given.add(name)

    def _await_in_fork(self, name: str) -> None:
        """In a process that the job has forked: who brings the input cannot wake it."""
        parent = os.getppid()
        self._given.add(name)  # before it looks: `replace` does the reverse
        while name not in self._arrived:
            if os.getppid() != parent:
                raise StopRequestedError("the attempt has ended")
            time.sleep(_LOOK_AGAIN_S)

    def next_of(self, names: Collection[str]) -> str:
        """Which one of the inputs has its turn: one for which the job waits, or the first."""
        with self._news:
            return next((name for name in self._wanted if name in names), next(iter(names)))

    def arrive(self, *names: str) -> None:
        with self._news:
            self._arrived.add(*names)
            self._wanted = [name for name in self._wanted if name not in self._arrived]
            self._news.notify_all()

    def replace(
        self, inputs: Mapping[str, StagedInput], follow: Callable[[], None]
    ) -> frozenset[str]:
        """Have these inputs as they were listed now; returns those that are to be brought again.

        `follow` is called if that is done.

        Raises:
            InputChangingError: the job uses one that has changed.
            StopRequestedError: nothing more is needed.
        """
        with self._news:
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
        with self._news:
            self.halt.request(StopReason.TERMINATED, "the job has ended")
        if self._thread is not None and wait_s:
            self._thread.join(wait_s)

    def _run(self) -> None:
        try:
            self.bring()
        except Exception as error:  # noqa: BLE001 - becomes the failure of the attempt
            if not self.halt.requested:
                self.stop.request(StopReason.INPUT, str(error), cause=error)

    def _stopped(self) -> None:
        self.halt.request(StopReason.TERMINATED, "the attempt has to stop")
        with self._news:
            self._news.notify_all()
