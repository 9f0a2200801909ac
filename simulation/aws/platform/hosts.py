"""Where the product's code runs: a function's sandbox during an invocation, a container, a shell.

A host has processes, a clock of its own, and an end.
"""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NoReturn, cast

from greenlet import GreenletExit, getcurrent

from simulation.aws.platform.timeline import Process, Timeline

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


class HostClock:
    """`ports.Clock` for code that runs on hosts. Each host's clock has its own error."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now(self) -> datetime:
        return self._timeline.clock.now() + here().skew

    def sleep(self, seconds: float) -> None:
        here()
        self._timeline.sleep(seconds)
