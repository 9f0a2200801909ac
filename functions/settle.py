"""Ends an attempt: completes, releases, dead-letters or cancels its job."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.wiring import wiring
from longhaul.domain.lease import ExecutionInput
from longhaul.domain.outcome import Evidence
from longhaul.logs import about
from longhaul.settle import Settler

logger = Logger()


@dataclass(frozen=True)
class Runtime:
    settler: Settler


@cache
def build_runtime() -> Runtime:
    return Runtime(wiring().settler)


def handle(event: dict[str, Any], runtime: Runtime) -> dict[str, str]:
    """The execution's input with `task` (the description of a task or job run that ended well) or `error` (`Error` and `Cause`, as a Catch gives them)."""
    execution = ExecutionInput.model_validate(event)
    error = event.get("error") or {}
    evidence = Evidence(
        error=error.get("Error"), cause=error.get("Cause") or "", task=event.get("task") if not error else None
    )
    with about(execution.id):
        return {"outcome": runtime.settler.settle(execution.id, evidence)}


@logger.inject_lambda_context
def lambda_handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, str]:
    return handle(event, build_runtime())
