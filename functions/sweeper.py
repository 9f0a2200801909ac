"""Repairs what a lost event or a crash left: on every execution that ended badly, and every five minutes."""

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.wiring import wiring
from longhaul.sweep import Sweeper

logger = Logger()

_STATUS_CHANGE = "Step Functions Execution Status Change"


@dataclass(frozen=True)
class Runtime:
    sweeper: Sweeper


@cache
def build_runtime() -> Runtime:
    parts = wiring()
    sweeper = Sweeper(
        parts.settings,
        parts.clock,
        parts.leases,
        parts.queue,
        parts.executions,
        parts.requests,
        parts.tasks,
        parts.publisher,
        parts.settler,
        parts.finisher,
        parts.metrics,
    )
    return Runtime(sweeper)


def handle(event: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
    """An EventBridge event: an execution's change of status, or the schedule."""
    if event.get("detail-type") == _STATUS_CHANGE:
        detail = event["detail"]
        return {"outcome": runtime.sweeper.execution_ended(detail["input"], detail["status"], detail.get("error"))}
    return asdict(runtime.sweeper.sweep())


@logger.inject_lambda_context
def lambda_handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    return handle(event, build_runtime())
