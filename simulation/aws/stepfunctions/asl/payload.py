"""The JSON that enters and leaves states: up to 256 KiB of UTF-8.

Checked for "the output of a connector", "the output of a state" and "after Parameters processing,
the input of a state".
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
"""

import json
from typing import Any

from simulation.aws.stepfunctions.asl.errors import ExecutionError

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
