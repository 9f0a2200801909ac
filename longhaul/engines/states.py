"""How an engine runs a job in the state machine. Imports no CDK."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

StateJson = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class JobStates:
    """The states of the job's branch that belong to one engine.

    `engine`: the value of the execution's `engine` that chooses them.
    `rights`: by stage, what they find at `$.rights`: whose rights the job gets.
    """

    engine: str
    start: str
    states: Mapping[str, StateJson]
    rights: Mapping[str, Mapping[str, str]]


def run_job(resource: str, parameters: Mapping[str, object]) -> StateJson:
    """The state that runs the job, whatever the engine."""
    return {
        "Type": "Task",
        "Resource": resource,
        "Parameters": parameters,
        "TimeoutSecondsPath": "$.timeout_s",
        "ResultPath": "$.task",
        # No Retry here: Settle classifies, counts and releases every failure. A retry would start
        # tasks that are not counted.
        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Settle"}],
        "Next": "Settle",
    }


def when(variable: str, targets: Mapping[str, str]) -> Sequence[StateJson]:
    """The choices of a Choice state: value of the variable → next state."""
    return [
        {"Variable": variable, "StringEquals": value, "Next": target}
        for value, target in targets.items()
    ]
