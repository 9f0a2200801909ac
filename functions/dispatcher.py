"""Receives batches from the jobs queue and starts one execution for each job: claim the lease, then StartExecution."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.wiring import wiring
from longhaul.batch import Messages
from longhaul.dispatch import Dispatcher
from longhaul.domain.delivery import Delivery
from longhaul.domain.message import MessageContent
from longhaul.settings import RuntimeSettings

logger = Logger()


@dataclass(frozen=True)
class Runtime:
    settings: RuntimeSettings
    dispatcher: Dispatcher


@cache
def build_runtime() -> Runtime:
    parts = wiring()
    dispatcher = Dispatcher(
        parts.settings,
        parts.clock,
        parts.rng,
        parts.leases,
        Messages(parts.settings.lease, parts.clock, parts.rng, parts.queue),
        parts.executions,
        parts.tasks,
        parts.requests,
        parts.settler,
        parts.finisher,
        parts.metrics,
    )
    return Runtime(parts.settings, dispatcher)


def handle(event: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
    """An event source mapping's batch; answers `batchItemFailures`, the messages that stay in the queue.

    A batch comes from one queue. An unknown queue or a malformed record raises, so that the mapping deletes nothing.
    """
    records = event["Records"]
    stage = runtime.settings.stage_of_queue(records[0]["eventSourceARN"])
    kept = runtime.dispatcher.dispatch(stage, [_delivery(record) for record in records])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}


@logger.inject_lambda_context
def lambda_handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    return handle(event, build_runtime())


def _delivery(record: dict[str, Any]) -> Delivery:
    attributes = record["attributes"]
    return Delivery(
        message_id=record["messageId"],
        receipt_handle=record["receiptHandle"],
        receive_count=int(attributes["ApproximateReceiveCount"]),
        sent_at=datetime.fromtimestamp(int(attributes["SentTimestamp"]) / 1000, UTC),
        content=MessageContent(record["body"], record.get("messageAttributes") or {}, attributes.get("MessageGroupId")),
    )
