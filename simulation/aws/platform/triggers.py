"""What invokes the handlers: event source mappings, schedules, and events of executions.

The event source mapping: polls a jobs queue, invokes the dispatcher, deletes messages.

Lambda may run the function long after the receive, even when the messages show again.

With ReportBatchItemFailures the listed messages stay. An empty list, an empty response or null
deletes all. A response of another shape, an error or a throttle deletes nothing. The mapping never
changes a visibility timeout.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html

EventBridge: the rules' schedules, and the events of executions.

Events are best effort: some are lost, late or doubled.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from simulation.aws.platform.hosts import PLATFORM, Host
from simulation.aws.platform.invocations import InvocationResult, Lambda
from simulation.aws.platform.timeline import Event, Timeline
from simulation.aws.sqs.queues import Queue
from simulation.aws.stepfunctions.client import Execution
from simulation.aws.template import Rule
from simulation.worlds.randomness import rng_of, unit

if TYPE_CHECKING:
    from simulation.worlds.world import World

LATE = ("late/100", "late/130", "late/900")
"""By how many seconds a batch is delivered late: within its visibility, around its end, beyond."""

_WAKES_IN_S = 0.05


class EventSourceMapping:
    """The pollers of one queue: `concurrency` of them, named after the stage by `label`.

    An idle poller wakes when a message becomes visible, as a long poll returns at once then.

    Attributes:
        deleting: Called with each message id before it is deleted.
        late: What happens to the delivery of a batch, by its name: one of `LATE`, or None.
        is_on: A mapping that is off receives nothing. What it holds is delivered.
        held: The ids of messages that it has received and not yet been answered for, by batch.
    """

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
        self._wake: tuple[float, Event] | None = None  # when, in seconds of the clock
        self.deleting: list[Callable[[str], None]] = []
        self.late: Callable[[str], str | None] = lambda _batch: None
        self.is_on = True
        self.held: list[list[str]] = []

    def switch(self, *, on: bool) -> None:
        self.is_on = on
        self.look()

    def look(self) -> None:
        """Schedule the next poll, if a poller is free and a message is to become visible.

        An earlier one stays: on a busy queue each change comes before the poll that the one before
        it scheduled.
        """
        shows_at = self._queue.shows_next_at() if self._free and self.is_on else None
        now = self._timeline.clock.now().timestamp()
        polls_at = None if shows_at is None else max(now, shows_at) + _WAKES_IN_S
        if self._wake is not None:
            if polls_at is not None and self._wake[0] <= polls_at:
                return
            self._wake[1].cancel()
            self._wake = None
        if polls_at is not None:
            self._wake = polls_at, self._timeline.after(polls_at - now, self._poll)

    def _poll(self) -> None:
        self._wake = None
        self._free -= 1
        self._batches += 1
        name = f"{self._label}mapping#{self._batches}"
        host = Host(self._timeline, name, rng_of(self._seed, name), traits=PLATFORM)
        host.run(self._receive, partial(self._received, host))

    def _receive(self) -> list[Mapping[str, Any]]:
        received = self._sqs.receive_message(
            QueueUrl=self._queue.url,
            MaxNumberOfMessages=self._batch_size,
            WaitTimeSeconds=20,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages: list[Mapping[str, Any]] = received.get("Messages", [])
        return messages

    def _received(
        self, host: Host, error: BaseException | None, messages: list[Mapping[str, Any]] | None
    ) -> None:
        if error is not None and not isinstance(error, ClientError | BotoCoreError):
            raise error
        if not messages:
            self._free += 1
            # A poll that failed is repeated a little later. Messages whose receive was lost become
            # visible again when their timeout ends.
            self._timeline.after(1.0 if error is not None else 0.0, self.look)
            return
        records = [record_of(message, self._queue.arn) for message in messages]
        batch = f"{self._label}m{self._batches}"
        ids = [message["MessageId"] for message in messages]
        self.held.append(ids)

        def answered(result: InvocationResult) -> None:
            self.held.remove(ids)
            self._invoked(host, messages, result)

        def deliver() -> None:
            self._platform.invoke("dispatcher", {"Records": records}, batch, answered)

        late = self.late(batch)
        if late is None:
            deliver()
        else:
            self._timeline.after(float(late.partition("/")[2]), deliver)
        self.look()

    def _invoked(
        self, host: Host, messages: list[Mapping[str, Any]], result: InvocationResult
    ) -> None:
        ids = [message["MessageId"] for message in messages]
        kept = set(ids) if result.error is not None else items_to_keep(result.payload, ids)
        doomed = [message for message in messages if message["MessageId"] not in kept]

        def delete() -> None:
            for message in doomed:
                for listener in self.deleting:
                    listener(message["MessageId"])
                try:
                    self._sqs.delete_message(
                        QueueUrl=self._queue.url, ReceiptHandle=message["ReceiptHandle"]
                    )
                except (ClientError, BotoCoreError):
                    continue  # it becomes visible again: SQS delivers at least once

        def deleted(error: BaseException | None, _answer: Any) -> None:
            if error is not None:
                raise error
            self._free += 1
            self.look()

        if doomed:
            host.run(delete, deleted)
        else:
            deleted(None, None)


def items_to_keep(response: Any, ids: list[str]) -> set[str]:
    """The messages of a batch that stay in the queue, given the function's response."""
    try:
        named = [item["itemIdentifier"] for item in (response or {}).get("batchItemFailures") or []]
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


_EVENT_FAULTS = ("lost", "late", "doubled")


class EventBridge:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._ticks = 0
        for rule in world.stack.rules:
            if rule.every_s is not None:
                self._tick(rule, rule.every_s * unit(world.plan.seed, "first tick"))

    def execution_changed(self, execution: Execution) -> None:
        for rule in self._world.stack.rules:
            if execution.status in rule.statuses:
                self._send(rule, execution)

    def _tick(self, rule: Rule, delay_s: float) -> None:
        def tick() -> None:
            self._ticks += 1
            site = f"t{self._ticks}"
            if (
                self._world.injector.of_event(
                    f"tick:{site}", ("lost",), self._world.plan.mix.events / 2
                )
                is None
            ):
                event = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
                self._world.platform.invoke_async(rule.function, event, site, rule.max_age_s)
            self._tick(rule, float(rule.every_s or 0))

        self._world.timeline.after(delay_s, tick)

    def _send(self, rule: Rule, execution: Execution) -> None:
        detail: dict[str, Any] = {
            "executionArn": execution.arn,
            "stateMachineArn": execution.machine_arn,
            "name": execution.name,
            "status": execution.status,
            "input": execution.input,
            "output": None,
            "error": execution.error,
            "cause": execution.cause,
        }
        event = {
            "source": "aws.states",
            "detail-type": "Step Functions Execution Status Change",
            "detail": detail,
        }
        told = json.loads(execution.input)
        site = self._world.attempt_label(told["key"], told["attempt"])
        fault = self._world.injector.of_event(
            f"event:{site}", _EVENT_FAULTS, self._world.plan.mix.events
        )
        delays = {None: (1.0,), "lost": (), "late": (1800.0,), "doubled": (1.0, 4.0)}[fault]
        for delay_s in delays:
            self._world.timeline.after(
                delay_s,
                lambda: self._world.platform.invoke_async(
                    rule.function, event, site, rule.max_age_s
                ),
            )
