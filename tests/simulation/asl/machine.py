"""A machine as it is run: its definition parsed once, every path and template a function. Pure.

Only what `infra/definition.py` uses is known. Any other type of state, field, intrinsic or form of path is refused when the machine is loaded, so that
nothing is silently passed over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.simulation.asl.paths import Read, Write


@dataclass(frozen=True)
class Retrier:
    matches: Callable[[str], bool]
    max_attempts: int
    interval_s: float
    backoff_rate: float
    max_delay_s: float

    def longest_pause(self, retries: int) -> float:
        """Seconds before the next try, after so many retries; with full jitter the pause is anything from 0 to that."""
        return min(self.interval_s * self.backoff_rate**retries, self.max_delay_s)


@dataclass(frozen=True)
class Catcher:
    matches: Callable[[str], bool]
    put: Write
    next: str


@dataclass(frozen=True)
class Task:
    type: ClassVar = "Task"
    name: str
    resource: str
    is_sync: bool
    parameters: Read
    select: Read
    put: Write
    output: Read
    timeout_s: Read
    retriers: tuple[Retrier, ...]
    catchers: tuple[Catcher, ...]
    next: str | None


@dataclass(frozen=True)
class Wait:
    type: ClassVar = "Wait"
    name: str
    seconds: Read
    next: str | None


@dataclass(frozen=True)
class Rule:
    variable: Read
    equals: str
    next: str


@dataclass(frozen=True)
class Choice:
    type: ClassVar = "Choice"
    name: str
    rules: tuple[Rule, ...]
    default: str

    def decide(self, data: Any) -> str:
        for rule in self.rules:
            if rule.variable(data) == rule.equals:
                return rule.next
        return self.default


@dataclass(frozen=True)
class Parallel:
    type: ClassVar = "Parallel"
    name: str
    branches: "tuple[States, ...]"
    select: Read
    catchers: tuple[Catcher, ...]
    next: str | None


@dataclass(frozen=True)
class Succeed:
    type: ClassVar = "Succeed"
    name: str


@dataclass(frozen=True)
class Fail:
    type: ClassVar = "Fail"
    name: str
    error: str
    cause: Read


State = Task | Wait | Choice | Parallel | Succeed | Fail


@dataclass(frozen=True)
class States:
    """The machine itself, or a branch of a Parallel state."""

    start_at: str
    states: Mapping[str, State]


@dataclass(frozen=True)
class Machine:
    top: States
    resources: frozenset[str]
