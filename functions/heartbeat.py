"""One beat: extends the message's visibility while the job lives, or ends the job."""

from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from longhaul.core.heartbeat import BeatResult, Heartbeat
from longhaul.core.lease import ExecutionInput
from longhaul.core.log_format import LogFormat
from longhaul.core.logs import about
from longhaul.wiring import wiring

logger = Logger(logger_formatter=LogFormat())


@cache
def build() -> Heartbeat:
    return wiring().heartbeat


def handle(event: dict[str, Any], heartbeat: Heartbeat) -> BeatResult:
    """The event is the execution's input; other fields that the state machine adds are ignored."""
    execution = ExecutionInput.model_validate(event)
    with about(execution.id, execution.label):
        return heartbeat.beat(execution.id)


@logger.inject_lambda_context
def lambda_handler(event: dict[str, Any], _context: LambdaContext) -> BeatResult:
    return handle(event, build())
