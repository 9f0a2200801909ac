"""Receives batches from the jobs queue: claims each job and starts its execution."""

from datetime import UTC, datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from longhaul.core.dispatch import Dispatcher
from longhaul.core.log_format import LogFormat
from longhaul.core.message import Delivery, Message
from longhaul.wiring import wiring

logger = Logger(logger_formatter=LogFormat())


@cache
def build() -> Dispatcher:
    return wiring().dispatcher


def handle(
    event: dict[str, Any], dispatcher: Dispatcher, until: datetime | None = None
) -> dict[str, Any]:
    """An event source mapping's batch.

    Returns `batchItemFailures`, the messages that stay in the queue: also those that were not
    handled `until` then. A batch comes from one queue.
    An unknown queue or a malformed record raises, so that the mapping deletes nothing.
    """
    records = event["Records"]
    stage = dispatcher.context.settings.stage_of_queue(records[0]["eventSourceARN"])
    kept = dispatcher.dispatch(stage, [_delivery(record) for record in records], until)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}


@logger.inject_lambda_context
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    dispatcher = build()
    until = dispatcher.context.deadline(context.get_remaining_time_in_millis())
    return handle(event, dispatcher, until)


def _delivery(record: dict[str, Any]) -> Delivery:
    attributes = record["attributes"]
    return Delivery(
        message_id=record["messageId"],
        receipt_handle=record["receiptHandle"],
        receive_count=int(attributes["ApproximateReceiveCount"]),
        sent_at=datetime.fromtimestamp(int(attributes["SentTimestamp"]) / 1000, UTC),
        content=Message(
            record["body"], record.get("messageAttributes") or {}, attributes.get("MessageGroupId")
        ),
        sender=attributes.get("SenderId"),
    )
