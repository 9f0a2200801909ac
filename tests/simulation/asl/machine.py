"""A machine as it is run: its definition parsed once, every path and template a function. Pure.

Only what `infra/definition.py` uses is known. Any other type of state, field, intrinsic or form of path is refused when the machine is loaded, so that
nothing is silently passed over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.simulation.asl.errors import StateError
from tests.simulation.asl.paths import Read, Write


@dataclass(frozen=True)
class Retrier:
    matches: Callable[[StateError], bool]
    max_attempts: int
    interval_s: float
    backoff_rate: float
    max_delay_s: float

    def longest_pause(self, retries: int) -> float:
        """Seconds before the next try, after so many retries; with full jitter the pause is anything from 0 to that."""
        return min(self.interval_s * self.backoff_rate**retries, self.max_delay_s)


@dataclass(frozen=True)
class Catcher:
    matches: Callable[[StateError], bool]
    put: Write
    next: str


class _State:
    """The names of its events in a history. Only a state that takes time can be aborted."""

    entered: ClassVar[str]
    exited: ClassVar[str]
    aborted: ClassVar[str]

    def __init_subclass__(cls) -> None:
        kind = cls.__name__
        cls.entered, cls.exited, cls.aborted = (f"{kind}State{what}" for what in ("Entered", "Exited", "Aborted"))


@dataclass(frozen=True)
class Task(_State):
    name: str
    resource: str  # such as arn:aws:states:::ecs:runTask.sync
    service: str
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
class Wait(_State):
    name: str
    seconds: Read
    next: str | None


@dataclass(frozen=True)
class Rule:
    variable: Read
    equals: str
    next: str


@dataclass(frozen=True)
class Choice(_State):
    name: str
    rules: tuple[Rule, ...]
    default: str

    def decide(self, data: Any) -> str:
        for rule in self.rules:
            if rule.variable(data) == rule.equals:
                return rule.next
        return self.default


@dataclass(frozen=True)
class Parallel(_State):
    name: str
    branches: "tuple[States, ...]"
    select: Read
    catchers: tuple[Catcher, ...]
    next: str | None


@dataclass(frozen=True)
class Succeed(_State):
    name: str


@dataclass(frozen=True)
class Fail(_State):
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
