"""One beat: extends the message's visibility while the job lives, or says that the job has to end."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.wiring import wiring
from longhaul.beat import BeatAnswer, Heartbeat
from longhaul.domain.lease import ExecutionInput
from longhaul.logs import about

logger = Logger()


@dataclass(frozen=True)
class Runtime:
    heartbeat: Heartbeat


@cache
def build_runtime() -> Runtime:
    parts = wiring()
    return Runtime(Heartbeat(parts.settings, parts.clock, parts.leases, parts.queue, parts.metrics))


def handle(event: dict[str, Any], runtime: Runtime) -> BeatAnswer:
    """The execution's input; what else the state machine has gathered beside it is ignored."""
    execution = ExecutionInput.model_validate(event)
    with about(execution.id):
        return runtime.heartbeat.beat(execution.id)


@logger.inject_lambda_context
def lambda_handler(event: dict[str, Any], _context: LambdaContext) -> BeatAnswer:
    return handle(event, build_runtime())
