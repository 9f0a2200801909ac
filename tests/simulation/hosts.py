"""Where the product's code runs: a function's sandbox during one invocation, a container, somebody's shell. It has processes, a clock of its own, and an end."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from greenlet import GreenletExit, getcurrent

from tests.simulation.timeline import Process, Timeline

PLATFORM = frozenset({"platform"})
"""The traits of what a service of AWS does by itself."""


class Host:
    """All processes of a host end with it. `name` says where in the plan it belongs: faults are named after it."""

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
        self.calls = 0
        self.crashed: Callable[[], None] = lambda: None  # told when a fault ends it
        self.traits = traits
        self.facts: dict[str, Any] = {}  # what invariants note about it
        self._processes: list[Process] = []

    def run(self, work: Callable[[], Any], ended: Callable[[BaseException | None, Any], None]) -> Process:
        process = self.timeline.spawn(work, ended=ended)
        process.host = self
        self._processes.append(process)
        return process

    def kill(self) -> None:
        """As SIGKILL. A process that kills its own host has to stop by itself: see `perish`."""
        self.alive = False
        for process in self._processes:
            process.kill()
        self._processes.clear()


def current_host() -> Host | None:
    return getattr(getcurrent(), "host", None)


def here() -> Host:
    """The host of whoever calls."""
    host = current_host()
    if host is None:
        raise AssertionError("the product's code runs only on a host")
    if not host.alive:
        # A killed process that is thrown away unwinds: nothing that it does on the way may have an effect.
        raise GreenletExit
    return host


class HostClock:
    """`ports.Clock` for code that runs on hosts: each sees the time with its own error."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now(self) -> datetime:
        return self._timeline.clock.now() + here().skew

    def sleep(self, seconds: float) -> None:
        here()
        self._timeline.sleep(seconds)
