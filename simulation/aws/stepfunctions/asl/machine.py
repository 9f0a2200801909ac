"""A parsed state machine: each of its paths and templates is a function.

It knows only what `longhaul/cdk/definition.py` uses. Any other type of state, field, intrinsic
function or form of path is refused when the machine is loaded, so that none is silently ignored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simulation.aws.stepfunctions.asl.errors import StateError
from simulation.aws.stepfunctions.asl.paths import Read, Write
from simulation.aws.stepfunctions.asl.templates import Fill


@dataclass(frozen=True)
class Retrier:
    matches: Callable[[StateError], bool]
    max_attempts: int
    interval_s: float
    backoff_rate: float
    max_delay_s: float

    def longest_pause(self, retries: int) -> float:
        """The most seconds before the next try; with full jitter the pause is from 0 to that."""
        return min(self.interval_s * self.backoff_rate**retries, self.max_delay_s)


@dataclass(frozen=True)
class Catcher:
    matches: Callable[[StateError], bool]
    put: Write
    next: str


class _State:
    """The names of its events in a history; only a state that takes time can be aborted."""

    entered: ClassVar[str]
    exited: ClassVar[str]
    aborted: ClassVar[str]

    def __init_subclass__(cls) -> None:
        kind = cls.__name__
        cls.entered, cls.exited, cls.aborted = (
            f"{kind}State{what}" for what in ("Entered", "Exited", "Aborted")
        )


@dataclass(frozen=True)
class Task(_State):
    name: str
    resource: str  # such as arn:aws:states:::ecs:runTask.sync
    service: str
    is_sync: bool
    parameters: Fill
    select: Read
    put: Write
    output: Read
    timeout_s: Read
    retriers: tuple[Retrier, ...]
    catchers: tuple[Catcher, ...]
    next: str | None


@dataclass(frozen=True)
class Pass(_State):
    name: str
    result: Any
    put: Write
    next: str | None


@dataclass(frozen=True)
class Wait(_State):
    name: str
    seconds: Read
    next: str | None


@dataclass(frozen=True)
class ChoiceRule:
    variable: Read
    equals: str
    next: str


@dataclass(frozen=True)
class Choice(_State):
    name: str
    rules: tuple[ChoiceRule, ...]
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


State = Task | Pass | Wait | Choice | Parallel | Succeed | Fail


@dataclass(frozen=True)
class States:
    """The states of the machine, or of a branch of a Parallel state."""

    start_at: str
    states: Mapping[str, State]


@dataclass(frozen=True)
class Machine:
    top: States
    resources: frozenset[str]
