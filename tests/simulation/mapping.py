"""The event source mapping: polls the jobs queue, invokes the dispatcher, deletes what it is told to.

https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html: with ReportBatchItemFailures the listed messages stay; nothing listed, an empty
answer or null deletes all; an answer that is not understood, an error or a throttle deletes nothing. The visibility timeouts are nobody's affair here.
"""

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tests.fakes.sqs_queues import Queue
from tests.simulation.hosts import PLATFORM, Host
from tests.simulation.lambda_platform import Answer, Lambda
from tests.simulation.randomness import rng_of
from tests.simulation.timeline import Event, Timeline


class EventSourceMapping:
    """`concurrency` pollers of one queue; `label` tells those of one stage from another's. An idle one wakes when a message shows: a long poll answers at once then."""

    def __init__(
        self,
        *,
        label: str,
        seed: int,
        timeline: Timeline,
        sqs: Any,
        queue: Queue,
        platform: Lambda,
        batch_size: int,
        concurrency: int,
    ) -> None:
        self._label = label
        self._seed = seed
        self._timeline = timeline
        self._sqs = sqs
        self._queue = queue
        self._platform = platform
        self._batch_size = batch_size
        self._free = concurrency
        self._batches = 0
        self._wake: Event | None = None
        self.deleting: list[Callable[[str], None]] = []  # hears of each message id that it is about to delete

    def look(self) -> None:
        """Plan the next poll, if there is a poller and something to come."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if not self._free:
            return
        shows_at = self._queue.shows_next_at()
        if shows_at is not None:
            delay_s = max(0.0, shows_at - self._timeline.clock.now().timestamp()) + 0.05
            self._wake = self._timeline.after(delay_s, self._poll)

    def _poll(self) -> None:
        self._wake = None
        self._free -= 1
        self._batches += 1
        name = f"{self._label}mapping#{self._batches}"
        host = Host(self._timeline, name, rng_of(self._seed, name), traits=PLATFORM)
        host.run(lambda: self._receive(host), self._received)

    def _receive(self, host: Host) -> tuple[Host, list[Mapping[str, Any]]]:
        answer = self._sqs.receive_message(
            QueueUrl=self._queue.url,
            MaxNumberOfMessages=self._batch_size,
            WaitTimeSeconds=20,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return host, answer.get("Messages", [])

    def _received(self, error: BaseException | None, answer: Any) -> None:
        if error is not None and not isinstance(error, ClientError | BotoCoreError):
            raise error
        host, messages = answer or (None, [])
        if not messages:
            self._free += 1
            # An error of the poll is tried again a little later; messages whose receive was lost show again when their timeout ends.
            self._timeline.after(1.0 if error is not None else 0.0, self.look)
            return
        records = [record_of(message, self._queue.arn) for message in messages]
        self._platform.invoke(
            "dispatcher",
            {"Records": records},
            f"{self._label}m{self._batches}",
            lambda answered: self._answered(host, messages, answered),
        )
        self.look()

    def _answered(self, host: Host, messages: list[Mapping[str, Any]], answer: Answer) -> None:
        ids = [message["MessageId"] for message in messages]
        kept = set(ids) if answer.error is not None else items_to_keep(answer.payload, ids)
        doomed = [message for message in messages if message["MessageId"] not in kept]

        def delete() -> None:
            for message in doomed:
                for listener in self.deleting:
                    listener(message["MessageId"])
                try:
                    self._sqs.delete_message(QueueUrl=self._queue.url, ReceiptHandle=message["ReceiptHandle"])
                except (ClientError, BotoCoreError):
                    continue  # it shows again: SQS delivers at least once

        def deleted(error: BaseException | None, _answer: Any) -> None:
            if error is not None:
                raise error
            self._free += 1
            self.look()

        if doomed:
            host.run(delete, deleted)
        else:
            deleted(None, None)


def items_to_keep(answer: Any, ids: list[str]) -> set[str]:
    """The messages of a batch that are not deleted, given what the function answered."""
    try:
        named = [item["itemIdentifier"] for item in (answer or {}).get("batchItemFailures") or []]
    except (AttributeError, TypeError, KeyError):
        return set(ids)
    return set(named) if all(isinstance(name, str) and name in ids for name in named) else set(ids)


def record_of(message: Mapping[str, Any], queue_arn: str) -> dict[str, Any]:
    """A received message as Lambda hands it over."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message["Attributes"]),
        "messageAttributes": {
            name: {"dataType": value["DataType"], "stringValue": value["StringValue"]}
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": "us-east-1",
    }
