"""The inputs of an attempt: listed before its job begins, and brought beside it.

stage ──► listed: sizes and digests, disk checked ──► bring ─────────────► end
job                     runs from here on, waits for the inputs that it asks for
"""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.transfer import InputChangingError
from longhaul.runner.stopping import Stop, StopReason


def _nothing(_: "Incoming") -> None:
    """All are there."""


def _no_one() -> None:
    """Nothing depends on the list."""


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
    _arrived: set[str] = field(default_factory=set)
    _given: set[str] = field(default_factory=set)
    # Those that the job waits for, the first one first.
    _wanted: list[str] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _news: threading.Condition = field(default_factory=threading.Condition)

    @classmethod
    def of(cls, inputs: Mapping[str, StagedInput]) -> "Incoming":
        """Inputs that are there."""
        return cls(inputs, _arrived={*inputs})

    def bring(self) -> Mapping[str, StagedInput]:
        """Bring all in this thread. Raises what `bring_all` raises."""
        self.bring_all(self)
        self.bring_all = _nothing  # a million listed files are not kept while the job runs
        return self.inputs

    def begin(self) -> None:
        """Bring what is not there yet in the background."""
        if self._arrived >= self.inputs.keys():
            return
        self.stop.on_request(self._stopped)
        self._thread = threading.Thread(target=self._run, name="staging", daemon=True)
        self._thread.start()

    def has(self, name: str) -> bool:
        return name in self._arrived

    def await_input(self, name: str) -> None:
        """Wait until the input is there.

        Raises:
            StopRequestedError: the attempt has to stop, or the input cannot be brought.
        """
        with self._news:
            if name not in self._arrived:
                self._wanted.append(name)
            while name not in self._arrived:
                self.stop.check()
                self._news.wait()
            self._given.add(name)

    def next_of(self, names: Collection[str]) -> str:
        """Which one of the inputs has its turn: one for which the job waits, or the first."""
        with self._news:
            return next((name for name in self._wanted if name in names), next(iter(names)))

    def arrive(self, *names: str) -> None:
        with self._news:
            self._arrived.update(names)
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
            if used := sorted(changed & self._given):
                raise InputChangingError(
                    f"an input keeps changing while it is read: {used[0]!r} has changed since the"
                    " job began to use it"
                )
            self.inputs = {**self.inputs, **inputs}
            self._arrived -= changed
            follow()
            again = frozenset(inputs.keys() - self._arrived)
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
