"""Look at dead letters, send them back, drop them.

SQS cannot show a message without receiving it. Letters are handled one at a time, and each is sent
before it is deleted, so that an interrupt loses none. A crash in between leaves a letter in both
queues; the second copy is then a duplicate.
"""

import base64
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from longhaul.core.message import Message
from longhaul.core.ports import Clock, JobQueue
from longhaul.core.settings import Stage
from longhaul.operations.letter import DeadLetter, explanation_of, redriven

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# A long poll asks all servers of SQS; a short one may miss messages.
_WAIT_S = 1
_HOLD_S = 60
_HELD_PER_SECOND = 10
"""Letters of a pass for each second of its hold: far fewer than it can handle.

A letter that becomes visible before the pass ends is received twice.
"""
_MAX_HOLD_S = 3600
_MIN_PREFIX = 8


@dataclass(frozen=True)
class Which:
    """A selection of dead letters: those that match every given field.

    `names` are job ids, message ids, or at least the first eight characters of a message id.
    """

    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    older_than: timedelta | None = None
    newer_than: timedelta | None = None
    message_ids: frozenset[str] | None = None

    def matches(self, letter: DeadLetter, now: datetime) -> bool:
        age = now - letter.sent_at
        return (
            (not self.names or bool(self.names_of(letter)))
            and (not self.kinds or letter.kind in self.kinds)
            and (self.older_than is None or age >= self.older_than)
            and (self.newer_than is None or age <= self.newer_than)
            and (self.message_ids is None or letter.message_id in self.message_ids)
        )

    def names_of(self, letter: DeadLetter) -> set[str]:
        """Those of the names that mean this letter."""
        return self.ids_of(letter) | ({letter.label or ""} & {*self.names})

    def ids_of(self, letter: DeadLetter) -> set[str]:
        """The same without its label."""
        return {name for name in self.names if _is_id(letter, name)}


Handling = Iterator[tuple[DeadLetter, str | None]]
"""Handles a letter at each step; with why it is still in the queue, if it is."""


@dataclass(frozen=True)
class DeadLetterOffice:
    clock: Clock
    queue: JobQueue
    sqs: "SQSClient"

    def waiting(self, stage: Stage) -> int:
        """About how many letters are there."""
        depth = self.queue.depth(stage.dead_letter_queue_url)
        return depth.visible + depth.hidden

    def look(self, stage: Stage, which: Which) -> Generator[DeadLetter, None, None]:
        """Each letter that matches and was there at the start, once.

        They are invisible while this goes on, and visible again when the iterator is closed.
        """
        begun, url, held = self.clock.now(), stage.dead_letter_queue_url, dict[str, str]()
        hold_s = min(_HOLD_S + self.waiting(stage) // _HELD_PER_SECOND, _MAX_HOLD_S)
        try:
            while letters := self._receive(url, hold_s):
                news = [letter for letter in letters if letter.message_id not in held]
                held |= {letter.message_id: letter.receipt_handle for letter in letters}
                if not news:
                    # Letters we hold came back: the pass outlived their timeout, or another
                    # process is receiving.
                    return
                # A later letter may be one that we sent back. A job that dies at once would keep
                # this pass going for ever.
                there = (each for each in news if each.sent_at <= begun)
                yield from (each for each in there if which.matches(each, self.clock.now()))
        finally:
            # SQS ignores those that were deleted.
            self.queue.set_visibility_many(url, dict.fromkeys(held.values(), 0))

    def look_in(
        self, stages: Iterable[Stage], which: Which
    ) -> Generator[tuple[DeadLetter, Stage], None, None]:
        """`look` in one stage after the other."""
        for stage in stages:
            with closing(self.look(stage, which)) as letters:
                yield from ((letter, stage) for letter in letters)

    def redrive(self, stage: Stage, which: Which, *, afresh: bool = False) -> Handling:
        """Send each letter that matches back to the stage's jobs queue, then delete it here.

        With `afresh` their jobs leave what they have stored. What is no request stays.
        """

        def send_back(letter: DeadLetter) -> str | None:
            if letter.request is None:
                return (
                    "its body is no valid request, which cannot run: `longhaul dlq drop` drops it"
                )
            message = redriven(letter, afresh=afresh)
            (answer,) = self.queue.send_batch(stage.queue_url, [message])
            return answer.reason if answer.message_id is None else None

        return self._handle(stage, which, send_back)

    def drop(self, stage: Stage, which: Which) -> Handling:
        """Delete each letter that matches, for good."""
        return self._handle(stage, which, lambda _: None)

    def _handle(
        self, stage: Stage, which: Which, first: Callable[[DeadLetter], str | None]
    ) -> Handling:
        with closing(self.look(stage, which)) as letters:
            for letter in letters:
                problem = first(letter)
                if problem is None and not self.queue.delete(
                    stage.dead_letter_queue_url, letter.receipt_handle
                ):
                    problem = (
                        "another process has received it meanwhile: "
                        "it may still be in the dead-letter queue"
                    )
                yield letter, problem

    def _receive(self, queue_url: str, hold_s: int) -> list[DeadLetter]:
        """Some of them, invisible to others for `hold_s`; empty when there are no more."""
        answer = self.sqs.receive_message(
            QueueUrl=queue_url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=hold_s,
            WaitTimeSeconds=_WAIT_S,
            MessageSystemAttributeNames=["SentTimestamp", "MessageGroupId"],
            MessageAttributeNames=["All"],
        )
        return [_letter(message) for message in answer.get("Messages", [])]


def _is_id(letter: DeadLetter, name: str) -> bool:
    return name in (letter.job_id, letter.message_id) or (
        len(name) >= _MIN_PREFIX and letter.message_id.startswith(name)
    )


def _letter(message: Mapping[str, Any]) -> DeadLetter:
    attributes = {
        name: _attribute(value) for name, value in message.get("MessageAttributes", {}).items()
    }
    system = message["Attributes"]
    content = Message(message["Body"], attributes, system.get("MessageGroupId"))
    return DeadLetter(
        message_id=message["MessageId"],
        receipt_handle=message["ReceiptHandle"],
        sent_at=datetime.fromtimestamp(int(system["SentTimestamp"]) / 1000, UTC),
        content=content,
        reason=explanation_of(content),
    )


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    """In the shape of an event source mapping's record, which is the one that is kept."""
    if value.get("BinaryValue") is not None:
        return {
            "dataType": value["DataType"],
            "binaryValue": base64.b64encode(value["BinaryValue"]).decode(),
        }
    return {"dataType": value["DataType"], "stringValue": value["StringValue"]}
