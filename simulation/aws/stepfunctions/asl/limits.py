"""What fails a state or an execution, and what an execution may hold.

The JSON that enters and leaves states: up to 256 KiB of UTF-8.

Checked for "the output of a connector", "the output of a state" and "after Parameters processing,
the input of a state".
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html

The events of an execution, as GetExecutionHistory lists them.

A Wait, a Choice or a Pass state writes 2, a task that succeeds 5 and 6 with `.sync`, each further
try of a task 3, a Parallel state 4 around what its branches write. Aborts are left out: nothing
follows them.
https://docs.aws.amazon.com/step-functions/latest/apireference/API_HistoryEvent.html
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from simulation.aws.stepfunctions.client import Execution


class StateError(Exception):
    """A state failed; `error` is the name that Retry and Catch match."""

    def __init__(self, error: str, cause: str) -> None:
        super().__init__(f"{error}: {cause}")
        self.error, self.cause = error, cause


class ExecutionError(StateError):
    """Fails the whole execution: States.Runtime, States.DataLimitExceeded, a full history.

    No Retry or Catch for States.ALL matches these, and the loader accepts none that names them.
    https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
    """


def runtime_error(cause: str) -> ExecutionError:
    """A path to nothing, or a value of the wrong type.

    It "isn't retriable, and will always cause the execution to fail" (same page).
    """
    return ExecutionError("States.Runtime", cause)


MAX_BYTES = 262_144
"""https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html"""

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def crossed(payload: Any, state: str) -> Any:
    """A copy of the payload, as if it had gone over the wire."""
    return json.loads(_text(payload, state))


def sized(payload: Any, state: str) -> Any:
    """The payload itself, if it is not too long."""
    _text(payload, state)
    return payload


def _text(payload: Any, state: str) -> str:
    """The payload as JSON.

    Raises:
        ExecutionError: it is too long.
    """
    text = _encode(payload)
    if len(text) * 4 > MAX_BYTES and len(text.encode()) > MAX_BYTES:
        raise ExecutionError(
            "States.DataLimitExceeded",
            f"The state/task '{state}' returned a result with a size exceeding the maximum number"
            " of bytes service limit.",
        )
    return text


MAX_EVENTS = 25_000
"""https://docs.aws.amazon.com/step-functions/latest/dg/bp-history-limit.html"""


Observer = Callable[[Execution, str, str], None]
"""Called with an event's execution, its type in GetExecutionHistory, and its state or ""."""


class History:
    def __init__(self, execution: Execution, observers: Sequence[Observer]) -> None:
        self.events = 0
        self._execution = execution
        self._observers = observers

    def write(self, event: str, state: str = "") -> None:
        """Write an event.

        Raises:
            ExecutionError: "When an execution reaches 24,999 events, it waits for the next event to
                happen", and fails unless that is its success.
        """
        if self.events >= MAX_EVENTS - 1:
            raise ExecutionError(
                "States.Runtime",
                f"The execution reached the maximum number of history events ({MAX_EVENTS}).",
            )
        self.close(event, state)

    def close(self, event: str, state: str = "") -> None:
        """Write the last event; there is always room for it."""
        self.events += 1
        for observer in self._observers:
            observer(self._execution, event, state)
