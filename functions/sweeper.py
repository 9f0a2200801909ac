"""Repairs what a lost event or a crash left: after each bad end, and every five minutes."""

from datetime import datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from longhaul.core.log_format import LogFormat
from longhaul.core.sweep import Sweeper
from longhaul.wiring import wiring

logger = Logger(logger_formatter=LogFormat())

_STATUS_CHANGE = "Step Functions Execution Status Change"


@cache
def build() -> Sweeper:
    return wiring().sweeper


def handle(
    event: dict[str, Any], sweeper: Sweeper, until: datetime | None = None
) -> dict[str, Any]:
    """An EventBridge event: an execution's change of status, or the schedule.

    A publication that is not done `until` then goes on in the next sweep.
    """
    if event.get("detail-type") == _STATUS_CHANGE:
        detail = event["detail"]
        outcome = sweeper.execution_ended(
            detail["input"], detail["status"], detail.get("error"), until
        )
        return {"outcome": outcome}
    return sweeper.sweep(until).counts


@logger.inject_lambda_context
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    sweeper = build()
    until = sweeper.context.deadline(context.get_remaining_time_in_millis())
    return handle(event, sweeper, until)
