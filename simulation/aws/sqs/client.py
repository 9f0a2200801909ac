"""SQS in memory: standard queues.

Strict about visibility: a new receipt handle at each receive, at most 12 h from the receive, native
redrive at the receive after the last allowed one, retention from the first send. A receive returns
at once; a long poll does not wait.

Open to faults: `stale_handles`, `entry_fault`, `reorder`, `redeliver`, `counted`.

Batch calls: up to ten entries, each of which succeeds or fails alone.
"""

import json
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple

from simulation.aws.service import Answer, Gate, RefusedError, Service, known, operation
from simulation.aws.sqs.queues import (
    MIB,
    Message,
    Policy,
    Queue,
    change_visibility,
    check_message,
    check_visibility,
    delete_held,
    invalid,
    md5,
    queue_numbers,
    shown,
    size_of,
)

MAX_ENTRIES = 10

_PREFIX = "AWS.SimpleQueueService."

Entry = Mapping[str, Any]


class EntryFault(NamedTuple):
    """Why one entry of a batch fails."""

    code: str
    message: str = ""
    sender_fault: bool = False


Faults = Callable[[str, Entry], EntryFault | None]
"""By the operation on one entry, such as `SendMessage`."""


def run_batch(
    operation: str, entries: Sequence[Entry], faults: Faults, do: Callable[[Entry], Answer]
) -> Answer:
    """The answer of a batch call; as in SQS's JSON, it has no empty list."""
    _check(entries)
    done, failed = [], []
    for entry in entries:
        fault = faults(operation, entry)
        if fault is None:
            try:
                done.append({"Id": entry["Id"], **do(entry)})
            except RefusedError as refused:
                fault = EntryFault(refused.code, refused.message, sender_fault=True)
        if fault is not None:
            about = {
                "SenderFault": fault.sender_fault,
                "Code": fault.code,
                "Message": fault.message,
            }
            failed.append({"Id": entry["Id"], **about})
    return {name: found for name, found in (("Successful", done), ("Failed", failed)) if found}


def _check(entries: Sequence[Entry]) -> None:
    ids = {entry["Id"] for entry in entries}
    if not 1 <= len(entries) <= MAX_ENTRIES or len(ids) < len(entries):
        raise RefusedError(f"{_PREFIX}BatchRequest", f"1 to {MAX_ENTRIES} entries with ids")


class FakeSqs(Service):
    service = "sqs"

    def __init__(self, gate: Gate, now: Callable[[], datetime]) -> None:
        super().__init__(gate, now)
        self.queues: dict[str, Queue] = {}  # by URL
        self.stale_handles: Policy = "fail"
        self.entry_fault: Faults = lambda _operation, _entry: None
        # Changes the order of the messages that a receive could take.
        self.reorder: Callable[[MutableSequence[Message]], None] | None = None
        # The receive count that SQS shows of a message.
        self.counted: Callable[[Message], int] = lambda message: message.receive_count
        self._handles = count(1)

    def redeliver(self, queue_url: str, message_id: str) -> None:
        """Let the next receive get a message again, even one in flight or deleted.

        SQS delivers at least once.
        """
        self._queue(queue_url).bring_back(message_id)

    @operation
    def create_queue(
        self, *, QueueName: str, Attributes: Mapping[str, str] | None = None
    ) -> Answer:
        attributes = dict(Attributes or {})
        queue = Queue(QueueName, queue_numbers(attributes))
        if policy := json.loads(attributes.get("RedrivePolicy", "null")):
            queue.dead_letter_arn, queue.max_receive_count = (
                policy["deadLetterTargetArn"],
                int(policy["maxReceiveCount"]),
            )
            self._queue_of_arn(policy["deadLetterTargetArn"])
        return {"QueueUrl": self.queues.setdefault(queue.url, queue).url}

    @operation
    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: Sequence[str] = ()) -> Answer:
        queue, now = self._queue(QueueUrl), self._time()
        alive = [
            m
            for m in queue.messages.values()
            if now - m.sent_at < queue.numbers["MessageRetentionPeriod"]
        ]
        hidden = sum(message.is_in_flight(now) for message in alive)
        delayed = sum(message.shows_at > now for message in alive) - hidden
        known: dict[str, Any] = {
            **queue.numbers,
            "QueueArn": queue.arn,
            "ApproximateNumberOfMessages": len(alive) - hidden - delayed,
            "ApproximateNumberOfMessagesNotVisible": hidden,
            "ApproximateNumberOfMessagesDelayed": delayed,
        }
        wanted = (
            known if "All" in AttributeNames else [name for name in AttributeNames if name in known]
        )
        found = {name: str(known[name]) for name in wanted}
        return {"Attributes": found} if found else {}

    @operation
    def purge_queue(self, *, QueueUrl: str) -> Answer:
        queue, now = self._queue(QueueUrl), self._time()
        if queue.purged_at is not None and now - queue.purged_at < 60:
            raise RefusedError(
                f"{_PREFIX}PurgeQueueInProgress",
                f"Only one PurgeQueue operation on {queue.name} is allowed every 60 seconds.",
                status=403,
            )
        queue.purged_at = now
        for message in list(queue.messages.values()):
            queue.remove(message)
        return {}

    @operation
    def send_message(self, *, QueueUrl: str, **entry: Any) -> Answer:
        return self._send(self._queue(QueueUrl), entry)

    @operation
    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> Answer:
        queue = self._queue(QueueUrl)
        total = sum(
            size_of(each["MessageBody"], each.get("MessageAttributes") or {}) for each in Entries
        )
        if total > MIB:
            raise RefusedError(
                f"{_PREFIX}BatchRequestTooLong",
                f"Batch requests cannot be longer than {MIB} bytes. You have sent {total} bytes.",
            )
        return run_batch(
            "SendMessage", Entries, self.entry_fault, lambda entry: self._send(queue, entry)
        )

    @operation
    def receive_message(
        self,
        *,
        QueueUrl: str,
        MaxNumberOfMessages: int = 1,
        VisibilityTimeout: int | None = None,
        WaitTimeSeconds: int = 0,
        AttributeNames: Sequence[str] = (),
        MessageSystemAttributeNames: Sequence[str] = (),
        MessageAttributeNames: Sequence[str] = (),
    ) -> Answer:
        queue, now = self._queue(QueueUrl), self._time()
        if not 1 <= MaxNumberOfMessages <= MAX_ENTRIES or WaitTimeSeconds not in range(21):
            raise invalid("a receive takes 1 to 10 messages, and waits for 0 to 20 seconds")
        hidden_s = (
            queue.numbers["VisibilityTimeout"] if VisibilityTimeout is None else VisibilityTimeout
        )
        check_visibility(hidden_s)
        taken = self._take(queue, now, MaxNumberOfMessages)
        for message in taken:
            self._receive(queue, message, now, hidden_s)
        system_names = (*AttributeNames, *MessageSystemAttributeNames)  # the older name of the same
        messages = [
            shown(message, self.counted(message), system_names, MessageAttributeNames)
            for message in taken
        ]
        return {"Messages": messages} if messages else {}

    @operation
    def change_message_visibility(
        self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int
    ) -> Answer:
        return self._change(self._queue(QueueUrl), ReceiptHandle, VisibilityTimeout)

    @operation
    def change_message_visibility_batch(
        self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]
    ) -> Answer:
        queue = self._queue(QueueUrl)
        return run_batch(
            "ChangeMessageVisibility",
            Entries,
            self.entry_fault,
            lambda entry: self._change(queue, entry["ReceiptHandle"], entry["VisibilityTimeout"]),
        )

    @operation
    def delete_message(self, *, QueueUrl: str, ReceiptHandle: str) -> Answer:
        delete_held(self._queue(QueueUrl), ReceiptHandle, self.stale_handles)
        return {}

    @operation
    def start_message_move_task(self, *, SourceArn: str, DestinationArn: str) -> Answer:
        """Moves the visible messages at once; each arrives as a new message."""
        source, target = self._queue_of_arn(SourceArn), self._queue_of_arn(DestinationArn)
        for message in list(source.visible(self._time())):
            del source.messages[message.id]
            self._add(target, message.body, message.attributes, message.group_id, 0)
        return {"TaskHandle": f"move-{next(self._ids)}"}

    def _time(self) -> float:
        return self._now().timestamp()

    def _queue(self, url: str) -> Queue:
        found = known(
            self.queues, url, f"{_PREFIX}NonExistentQueue", "The specified queue does not exist."
        )
        found.expire(self._time())
        return found

    def _queue_of_arn(self, arn: str) -> Queue:
        return known(
            {queue.arn: queue for queue in self.queues.values()},
            arn,
            "ResourceNotFoundException",
            "The resource that you specified doesn't exist.",
            404,
        )

    def _send(self, queue: Queue, entry: Mapping[str, Any]) -> Answer:
        if unknown := entry.keys() - {
            "Id",
            "MessageBody",
            "MessageAttributes",
            "DelaySeconds",
            "MessageGroupId",
        }:
            raise TypeError(f"SendMessage: this fake does not know {unknown}")
        body, attributes = entry["MessageBody"], entry.get("MessageAttributes") or {}
        delay_s, group_id = (
            entry.get("DelaySeconds", queue.numbers["DelaySeconds"]),
            entry.get("MessageGroupId"),
        )
        check_message(queue, body, attributes, delay_s, group_id)
        copied = {name: dict(value) for name, value in attributes.items()}
        message = self._add(queue, body, copied, group_id, delay_s)
        return {"MessageId": message.id, "MD5OfMessageBody": md5(body)}

    def _add(
        self,
        queue: Queue,
        body: str,
        attributes: Mapping[str, Mapping[str, Any]],
        group_id: str | None,
        delay_s: int,
    ) -> Message:
        now = self._time()
        message = Message(
            f"{next(self._ids):08d}-feed-4000-8000-000000000000",
            body,
            attributes,
            group_id,
            now,
            now,
        )
        queue.add(message, now + delay_s)
        return message

    def _take(self, queue: Queue, now: float, wanted: int) -> list[Message]:
        """The messages of a receive; those received too often move to the dead-letter queue."""
        visible = queue.visible(now)
        if self.reorder is not None:
            everything = list(visible)
            self.reorder(everything)
            visible = iter(everything)
        taken: list[Message] = []
        for message in visible:
            if len(taken) == wanted:
                queue.show(message, message.shows_at)
            elif queue.dead_letter_arn and message.receive_count >= queue.max_receive_count:
                del queue.messages[message.id]
                message.source_arn = queue.arn
                self._queue_of_arn(queue.dead_letter_arn).add(message, now)
            else:
                taken.append(message)
                if len(taken) == wanted and self.reorder is None:
                    break
        return taken

    def _receive(self, queue: Queue, message: Message, now: float, hidden_s: int) -> None:
        message.receipt_handle = f"AQEB{queue.name}+{next(self._handles)}"
        queue.by_handle[message.receipt_handle] = message
        message.received_at = now
        message.first_received_at = message.first_received_at or now
        message.receive_count += 1
        queue.show(message, now + hidden_s)

    def _change(self, queue: Queue, handle: str, seconds: int) -> Answer:
        change_visibility(queue, handle, seconds, self._time(), self.stale_handles)
        return {}
