"""A full stage with many waiting messages, for weeks: a model on a scale of one to some thousand.

The dispatcher is the real one, over a strict SQS. What AWS bounds is divided by the scale: the
messages, how many of them may be hidden, and how many the dispatchers look at in a second. All
times are those of the template. So one message here stands for some thousand that come and go
together, and its age, its renewals and its waits are those of each of them.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from functions import dispatcher
from longhaul.core.pace import MAX_HIDDEN
from longhaul.wiring import Wiring
from simulation.aws.cloud import FakeAws
from simulation.aws.platform.triggers import items_to_keep, record_of
from simulation.aws.sqs.queues import MAX_IN_FLIGHT
from simulation.aws.template import deployed

LOOK_S = 0.015
"""A poller's seconds for one message: a batch of ten in 0.15 s. A guess: Lambda is not here."""


class InTurn:
    """`ports.Background` without threads."""

    def run_all(self, tasks: Sequence[Callable[[], Any]], **_: Any) -> list[Any]:
        return [task() for task in tasks]


@dataclass
class Seen:
    """What became of the messages. Durations are seconds."""

    looks: int = 0
    renewed: int = 0
    lost: int = 0  # at the end of their retention
    oldest_s: float = 0  # the greatest age of a message
    most_hidden: int = 0
    longest_unseen_s: float = 0  # between two receives of a message, or before its first
    dead_lettered_after_s: list[float] = field(default_factory=list)


class Backlog:
    """A stage whose slots are taken for ever, and so many messages that wait."""

    def __init__(self, waiting: int, *, scale: int, order: str, seed: int = 0) -> None:
        """`order` in which SQS gives out what is visible: `longest` visible first, or `any`."""
        self._scale = scale
        self.aws = FakeAws()
        stack = deployed()
        # One after the other: all at once, each with thousands, they would hide too many.
        self._free_at = [
            self.aws.clock.now() + timedelta(seconds=LOOK_S * scale * n / stack.concurrency)
            for n in range(stack.concurrency)
        ]
        for name, attributes in stack.queues.items():
            self.aws.sqs.create_queue(QueueName=name, Attributes=attributes)
        self.aws.dynamodb.create_table(**stack.table)
        self.aws.s3.create_bucket(Bucket=stack.settings.paths.data_bucket)
        self.aws.stepfunctions.create_state_machine(
            name="Longhaul", definition=stack.definition, roleArn=""
        )
        self.aws.sqs.max_in_flight = MAX_IN_FLIGHT // scale
        if order == "any":
            self.aws.sqs.reorder = random.Random(seed).shuffle
        wiring = Wiring(stack.settings, client=lambda service, **_: self.aws.client(service))
        wiring.clock = self.aws.clock  # type: ignore[assignment]  # virtual
        wiring.background = InTurn()  # type: ignore[assignment]  # no threads in virtual time
        wiring.rng = random.Random(seed)
        wiring.most_hidden = MAX_HIDDEN // scale
        self.wiring = wiring
        self._stage = stack.settings.stages[0]
        self._dispatcher = wiring.dispatcher
        self._queue = self.aws.sqs.queues[stack.settings.stages[0].queue_url]
        self._dead_letters = self.aws.sqs.queues[stack.settings.stages[0].dead_letter_queue_url]
        self._fill(stack.settings.leases_table, stack.settings.stages[0].slots)
        self._seen_at: dict[str, float] = {}
        self.seen = Seen()
        output = f"s3://{stack.settings.paths.data_bucket}/out/"
        for n in range(waiting // scale):
            body = {"job": "flights_clean", "job_id": f"job-{n}", "output": f"{output}{n}/"}
            self.send(json.dumps(body))

    def send(self, body: str) -> None:
        self.aws.sqs.send_message(QueueUrl=self._queue.url, MessageBody=body)

    def run(self, days: float) -> Seen:
        """Let the dispatchers look at what is visible, for that long."""
        clock = self.aws.clock
        until = clock.now() + timedelta(days=days)
        free_at = self._free_at
        while True:
            shows_at = self._queue.shows_next_at()
            if shows_at is None:
                raise AssertionError("nothing waits any more")
            at = max(min(free_at), clock.now())
            wait_s = max(0.0, shows_at - at.timestamp())
            at += timedelta(seconds=wait_s)
            if at >= until:
                return self.seen
            clock.advance_to(max(at, clock.now()))
            poller = free_at.index(min(free_at))
            free_at[poller] = clock.now() + timedelta(seconds=LOOK_S * self._scale)
            self._poll()

    def _poll(self) -> None:
        sqs, queue, now = self.aws.sqs, self._queue, self.aws.clock.now().timestamp()
        before = set(queue.messages)
        messages = sqs.receive_message(
            QueueUrl=queue.url,
            MaxNumberOfMessages=1,
            WaitTimeSeconds=20,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        self.seen.lost += len(before - set(queue.messages))
        self.seen.most_hidden = max(self.seen.most_hidden, queue.in_flight(now))
        if not messages:
            return
        self.seen.looks += 1
        (message,) = messages
        # Looked up now: a message that is refused is deleted with its dead letter.
        received = queue.messages[message["MessageId"]]
        unseen_s = now - self._seen_at.get(received.id, received.sent_at)
        self._seen_at[received.id] = now
        self.seen.longest_unseen_s = max(self.seen.longest_unseen_s, unseen_s)
        self.seen.oldest_s = max(self.seen.oldest_s, now - received.sent_at)
        letters = len(self._dead_letters.messages)
        event = {"Records": [record_of(message, queue.arn)]}
        kept = items_to_keep(dispatcher.handle(event, self._dispatcher), [message["MessageId"]])
        if len(self._dead_letters.messages) > letters:
            self.seen.dead_lettered_after_s.append(now - received.sent_at)
        if not kept:
            self.seen.renewed += 1
            sqs.delete_message(QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"])

    def _fill(self, table: str, slots: int) -> None:
        """All slots are taken, by jobs that began at once."""
        item = {
            "key": {"S": "slots#main"},
            "item": {"S": "slots"},
            "running": {"N": str(slots)},
            "claimed_at": {"N": str(round(self.aws.clock.now().timestamp() * 1000))},
            "claim_gap_ms": {"N": "0"},
        }
        self.aws.dynamodb.put_item(TableName=table, Item=item)
