"""What came of a script, in one form for both interpreters."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.service import Gate
from tests.simulation.conformance.scripts import DEFINITION, Player

_MACHINE = json.loads(DEFINITION)
_PARALLEL = _MACHINE["States"]["RunUnderLease"]
BRANCHES: Mapping[str, str] = {
    state: name
    for name, states in zip(("execution", "job", "lease"), (_MACHINE, *_PARALLEL["Branches"]), strict=True)
    for state in states["States"]
}
"""The branch of each state."""

UNNAMED = {
    *("ExecutionStarted", "ExecutionSucceeded", "ExecutionFailed", "ExecutionAborted"),
    *("ParallelStateStarted", "ParallelStateSucceeded", "ParallelStateFailed"),
}
"""Events that say nothing about their state; there is one Parallel state."""


@dataclass(frozen=True)
class Played:
    """`steps`: by branch, the events of its history. `calls`: by function, the payloads. `ecs`: RunTask and StopTask."""

    status: str
    error: str | None
    cause: Any
    output: Any
    steps: Mapping[str, list[str]]
    calls: Mapping[str, list[Any]]
    ecs: list[Any]


def played(end: Mapping[str, Any], events: Iterable[tuple[str, str]], player: Player, gate: Gate) -> Played:
    """From DescribeExecution's answer and the events with the names of their states."""
    steps: dict[str, list[str]] = {"execution": [], "job": [], "lease": []}
    for event, state in events:
        if event in UNNAMED:
            steps["execution"].append(event)
        else:
            steps[BRANCHES[state]].append(f"{event} {state}")
    return Played(
        status=end["status"],
        error=end.get("error"),
        cause=_comparable(end.get("cause")),
        output=_comparable(end.get("output")),
        steps=steps,
        calls=_comparable(player.calls),
        ecs=[
            (call.operation, dict(call.arguments)) for call in gate.calls if call.operation in ("RunTask", "StopTask")
        ],
    )


def _comparable(value: Any) -> Any:
    """JSON in strings as what it says, and times left out: moto's clock is another."""
    match value:
        case dict():
            return {name: _comparable(inner) for name, inner in value.items() if not name.endswith("At")}
        case list():
            return [_comparable(inner) for inner in value]
        case str() if value[:1] in ("{", "[", '"'):
            return _comparable(json.loads(value))
        case _:
            return value
