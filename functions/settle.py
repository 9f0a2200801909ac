"""Ends an attempt: completes, releases, dead-letters or cancels its job."""

from datetime import datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from longhaul.core.lease import ExecutionInput
from longhaul.core.log_format import LogFormat
from longhaul.core.logs import about
from longhaul.core.settle import Settler
from longhaul.core.verdict import Evidence
from longhaul.wiring import wiring

logger = Logger(logger_formatter=LogFormat())


@cache
def build() -> Settler:
    return wiring().settler


def handle(
    event: dict[str, Any], settler: Settler, until: datetime | None = None
) -> dict[str, str]:
    """The event is the execution's input with `task` or `error`.

    `task` describes a task or job run that ended well; `error` has `Error` and `Cause`, from a
    Catch. A publication that is not done `until` then goes on in a later sweep.
    """
    execution = ExecutionInput.model_validate(event)
    error = event.get("error") or {}
    evidence = Evidence(
        error=error.get("Error"),
        cause=error.get("Cause") or "",
        task=event.get("task") if not error else None,
    )
    with about(execution.id, execution.label):
        return {"outcome": settler.settle(execution.id, evidence, until)}


@logger.inject_lambda_context
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:
    settler = build()
    until = settler.context.deadline(context.get_remaining_time_in_millis())
    return handle(event, settler, until)
