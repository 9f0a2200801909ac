"""A dead letter knows its source queue, and StartMessageMoveTask moves it back.

AWS: a message that SQS moved to a dead-letter queue has the system attribute
`DeadLetterQueueSourceArn`. StartMessageMoveTask moves the visible messages of a dead-letter queue
to a named queue, or each to its source; there they are new messages. A message that was sent to the
dead-letter queue has no source, and the task fails at it.

Stock moto: has neither StartMessageMoveTask nor ListMessageMoveTasks (clients see a 500), and a
dead letter does not know its source.

A move ends at once here, so CancelMessageMoveTask never finds one that runs; it stays missing.
Needs `sqs_receive`, which moves messages to dead-letter queues.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import unix_time_millis
from moto.sqs import models
from moto.sqs.exceptions import InvalidParameterValue, SQSException
from moto.sqs.responses import SQSResponse

from longhaul.local.moto_repairs.patching import Patches

MAX_RESULTS = 10
_SOURCE = "DeadLetterQueueSourceArn"


def apply(patches: Patches) -> None:
    moves: dict[str, list[dict[str, Any]]] = {}  # by the source's ARN, oldest first
    stock_receive = SQSResponse.receive_message

    def start_message_move_task(response: Any) -> ActionResult:
        backend = response.sqs_backend
        source = _queue(backend, response._get_param("SourceArn"))
        if not any(
            queue.dead_letter_queue is source and queue.redrive_policy
            for queue in backend.queues.values()
        ):
            raise InvalidParameterValue("Source queue must be configured as a Dead Letter Queue.")
        target = response._get_param("DestinationArn")
        task = _move(backend, source, _queue(backend, target) if target else None)
        moves.setdefault(source.queue_arn, []).append(task)
        return ActionResult({"TaskHandle": task["TaskHandle"]})

    def list_message_move_tasks(response: Any) -> ActionResult:
        source = _queue(response.sqs_backend, response._get_param("SourceArn"))
        count = int(response._get_param("MaxResults") or 1)
        newest = moves.get(source.queue_arn, [])[: -min(count, MAX_RESULTS) - 1 : -1]
        # Only a task that runs has a handle.
        return ActionResult(
            {
                "Results": [
                    {name: value for name, value in task.items() if name != "TaskHandle"}
                    for task in newest
                ]
            }
        )

    def receive_message(response: Any) -> ActionResult:
        result: Any = stock_receive(response)
        asked = {
            *(response._get_param("AttributeNames") or []),
            *(response._get_param("MessageSystemAttributeNames") or []),
        }
        if asked & {"All", _SOURCE}:
            queue = response.sqs_backend.get_queue(response._get_queue_name())
            sources = {
                message.id: message.dead_letter_source_arn
                for message in list(queue._messages)
                if hasattr(message, "dead_letter_source_arn")
            }
            for received in result.result.get("Messages", []):
                if received["MessageId"] in sources:
                    received.setdefault("Attributes", {})[_SOURCE] = sources[received["MessageId"]]
        return result  # type: ignore[no-any-return]

    patches.replace(SQSResponse, "start_message_move_task", start_message_move_task)
    patches.replace(SQSResponse, "list_message_move_tasks", list_message_move_tasks)
    patches.replace(SQSResponse, "receive_message", receive_message)


def _queue(backend: Any, arn: str) -> Any:
    for queue in backend.queues.values():
        if queue.queue_arn == arn:
            return queue
    raise SQSException(
        "ResourceNotFoundException", "The resource that you specified doesn't exist."
    )


def _move(backend: Any, source: Any, target: Any) -> dict[str, Any]:
    """Move the visible messages; the finished task as ListMessageMoveTasks describes it."""
    with source._messages_lock:
        visible = [message for message in source._messages if message.visible]
    task: dict[str, Any] = {
        "TaskHandle": f"move-{unix_time_millis():.0f}",
        "Status": "COMPLETED",
        "SourceArn": source.queue_arn,
        "ApproximateNumberOfMessagesMoved": 0,
        "ApproximateNumberOfMessagesToMove": len(visible),
        "StartedTimestamp": int(unix_time_millis()),
    }
    if target is not None:
        task["DestinationArn"] = target.queue_arn
    for message in visible:
        arn = getattr(message, "dead_letter_source_arn", None)
        to = target if target is not None else arn and _queue(backend, arn)
        if not to:
            return task | {"Status": "FAILED", "FailureReason": "CouldNotDetermineMessageSource"}
        with source._messages_lock:
            if message not in source._messages:
                continue
            source._messages = [each for each in source._messages if each is not message]
        backend.send_message(
            to.name,
            message.body,
            message_attributes=message.message_attributes,
            group_id=message.group_id,
        )
        task["ApproximateNumberOfMessagesMoved"] += 1
    return task


def remember_source(message: models.Message, queue: models.Queue) -> None:
    """Note the queue that the message leaves for its dead-letter queue."""
    message.dead_letter_source_arn = queue.queue_arn  # type: ignore[attr-defined]
