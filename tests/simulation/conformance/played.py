"""The result of a script, in one form for both interpreters."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from simulation.aws.service import Gate
from tests.simulation.conformance.scripts import DEFINITION, Player

_MACHINE = json.loads(DEFINITION)
_PARALLEL = _MACHINE["States"]["RunUnderLease"]
BRANCHES: Mapping[str, str] = {
    state: name
    for name, states in zip(
        ("execution", "job", "lease"), (_MACHINE, *_PARALLEL["Branches"]), strict=True
    )
    for state in states["States"]
}
"""The branch of each state."""

UNNAMED = {
    *("ExecutionStarted", "ExecutionSucceeded", "ExecutionFailed", "ExecutionAborted"),
    *("ParallelStateStarted", "ParallelStateSucceeded", "ParallelStateFailed"),
}
"""Events without the name of a state; there is only one Parallel state."""


@dataclass(frozen=True)
class Played:
    """The result of a script.

    Attributes:
        steps: The events of the history, by branch.
        calls: The payloads, by function.
        ecs: RunTask and StopTask with their arguments.
    """

    status: str
    error: str | None
    cause: Any
    output: Any
    steps: Mapping[str, list[str]]
    calls: Mapping[str, list[Any]]
    ecs: list[Any]


def played(
    end: Mapping[str, Any], events: Iterable[tuple[str, str]], player: Player, gate: Gate
) -> Played:
    """The result from DescribeExecution's answer and the events with their states."""
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
            (call.operation, dict(call.arguments))
            for call in gate.calls
            if call.operation in ("RunTask", "StopTask")
        ],
    )


def _comparable(value: Any) -> Any:
    """The value with JSON in strings parsed, and without times, since the clocks differ."""
    match value:
        case dict():
            return {
                name: _comparable(inner) for name, inner in value.items() if not name.endswith("At")
            }
        case list():
            return [_comparable(inner) for inner in value]
        case str() if value[:1] in ("{", "[", '"'):
            return _comparable(json.loads(value))
        case _:
            return value
