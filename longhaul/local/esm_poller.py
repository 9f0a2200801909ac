"""SQS event source mappings: polls the queue, invokes the function, deletes handled messages.

The semantics are Lambda's for standard queues
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html). A failed invocation
deletes nothing, and every message waits for its visibility timeout. With `ReportBatchItemFailures`
the listed messages stay, and the others are deleted. MaximumConcurrency limits the batches that the
function handles at once.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import base64
import json
import logging
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.sqs.models import sqs_backends

from longhaul.local.assembly import DeployError
from longhaul.local.credentials import Allows, allow_all
from longhaul.local.lambda_driver import LambdaDriver

LOG = logging.getLogger(__name__)

LONG_POLL_S = 20
REFUSED_S = 1.0  # between two polls that the role does not allow
SWITCHED_OFF_S = 0.2  # between two looks at a mapping that is off
# Lambda starts with five pollers for a mapping without MaximumConcurrency.
DEFAULT_CONCURRENCY = 5
MAX_RECEIVE = 10
# https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
NEEDED = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
NOT_DRIVEN = (
    "FilterCriteria",
    "MaximumBatchingWindowInSeconds",
    "DestinationConfig",
    "ProvisionedPollerConfig",
)


@dataclass(frozen=True)
class Mapping:
    queue_arn: str
    function_arn: str
    batch_size: int
    concurrency: int
    reports_item_failures: bool

    @property
    def queue_name(self) -> str:
        return self.queue_arn.rsplit(":", 1)[-1]

    @classmethod
    def of(cls, configuration: dict[str, Any]) -> "Mapping":
        """From moto's configuration of a mapping.

        Raises:
            NotImplementedError: the mapping uses a feature that this poller lacks.
        """
        asked = [name for name in NOT_DRIVEN if configuration.get(name)]
        if asked or configuration["BatchSize"] > MAX_RECEIVE:
            raise NotImplementedError(
                f"event source mapping of {configuration['EventSourceArn']}: the embedded AWS "
                f"drives batches of at most {MAX_RECEIVE} without {', '.join(NOT_DRIVEN)}"
            )
        return cls(
            queue_arn=configuration["EventSourceArn"],
            function_arn=configuration["FunctionArn"],
            batch_size=configuration["BatchSize"],
            concurrency=int(
                (configuration.get("ScalingConfig") or {}).get(
                    "MaximumConcurrency", DEFAULT_CONCURRENCY
                )
            ),
            reports_item_failures="ReportBatchItemFailures"
            in (configuration.get("FunctionResponseTypes") or []),
        )


class EsmPoller:
    """Drives all SQS mappings of an account, with one thread per concurrent batch.

    An idle thread sleeps in a long poll. A mapping that is switched off starts no batch any more.
    """

    def __init__(
        self,
        *,
        account: str,
        region: str,
        invoker: LambdaDriver,
        allows: Allows = allow_all,
    ) -> None:
        """`allows` judges what is done with a function's role: the role, the action, the queue."""
        self._allows = allows
        self._account = account
        self._region = region
        self._invoker = invoker
        self._closing = Event()
        self._threads: list[Thread] = []

    def start(self) -> None:
        """Start to poll for the mappings that are deployed now.

        Raises:
            DeployError: the role of a function lacks what its mapping needs.
        """
        functions: Any = lambda_backends[self._account][self._region]
        for esm in functions.list_event_source_mappings(None, None):
            mapping = Mapping.of(esm.get_configuration())
            role = str(functions.get_function(mapping.function_arn).role)
            for action in NEEDED:
                if not self._allows(role, f"sqs:{action}", mapping.queue_arn):
                    raise DeployError(
                        "The provided execution role does not have permissions to call "
                        f"{action} on SQS ({role}, {mapping.queue_arn})"
                    )
            for number in range(mapping.concurrency):
                thread = Thread(
                    target=self._poll,
                    args=(mapping, esm),
                    name=f"esm-{mapping.queue_name}-{number}",
                    daemon=True,
                )
                self._threads.append(thread)
                thread.start()

    def begin_close(self) -> None:
        """Take no further batch.

        `moto_repairs.sqs_repairs.wake_long_polls` then wakes the threads in a long poll.
        """
        self._closing.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _poll(self, mapping: Mapping, esm: Any) -> None:
        backend: Any = sqs_backends[self._account][self._region]
        function = lambda_backends[self._account][self._region].get_function(mapping.function_arn)
        while not self._closing.is_set():
            if not esm.enabled:
                self._closing.wait(SWITCHED_OFF_S)
                continue
            # Lambda asks for it with the role at each poll, and stops when it is refused.
            if not self._allows(str(function.role), "sqs:ReceiveMessage", mapping.queue_arn):
                self._closing.wait(REFUSED_S)
                continue
            visibility_s = backend.get_queue(mapping.queue_name).visibility_timeout
            batch = backend.receive_message(
                mapping.queue_name, mapping.batch_size, LONG_POLL_S, visibility_s, ["All"]
            )
            if not batch:
                continue
            if not esm.enabled:  # switched off during the long poll
                for message in batch:
                    backend.change_message_visibility(mapping.queue_name, message.receipt_handle, 0)
                continue
            event = {
                "Records": [
                    record_of(message, mapping.queue_arn, self._region) for message in batch
                ]
            }
            payload, failed = self._invoker.invoke(function, json.dumps(event).encode())
            ids = [message.id for message in batch]
            kept = (
                set(ids)
                if failed
                else items_to_keep(
                    payload, ids, reports_item_failures=mapping.reports_item_failures
                )
            )
            if failed:
                LOG.warning(
                    "%s failed for %d messages: %s",
                    mapping.function_arn,
                    len(ids),
                    payload.decode(errors="replace")[:500],
                )
            for message in batch:
                if message.id not in kept:
                    backend.delete_message(mapping.queue_name, message.receipt_handle)


def items_to_keep(payload: bytes, ids: list[str], *, reports_item_failures: bool) -> set[str]:
    """The messages of a batch that are not deleted, by the function's response.

    With no message listed, an empty response or null, all succeeded. With a malformed response, or
    one that lists an empty or unknown message, all failed.
    """
    if not reports_item_failures:
        return set()
    try:
        response = json.loads(payload or b"null")
        listed = (response or {}).get("batchItemFailures") or []
        named = [item["itemIdentifier"] for item in listed]
    except (ValueError, AttributeError, TypeError, KeyError):
        return set(ids)
    return set(named) if all(isinstance(name, str) and name in ids for name in named) else set(ids)


def record_of(message: Any, queue_arn: str, region: str) -> dict[str, Any]:
    """A received message as Lambda passes it to a function."""
    record = {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": str(message.approximate_receive_count),
            "SentTimestamp": str(message.sent_timestamp),
            "SenderId": message.sender_id,
            "ApproximateFirstReceiveTimestamp": str(message.approximate_first_receive_timestamp),
        },
        "messageAttributes": {
            name: _attribute(value) for name, value in message.message_attributes.items()
        },
        "md5OfBody": message.body_md5,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": region,
    }
    if message.group_id is not None:  # the tenant of a fair queue
        record["attributes"]["MessageGroupId"] = message.group_id
    if message.message_attributes:
        record["md5OfMessageAttributes"] = message.attribute_md5
    return record


def _attribute(value: dict[str, Any]) -> dict[str, Any]:
    shaped: dict[str, Any] = {
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": value["DataType"],
    }
    if value.get("StringValue") is not None:
        shaped["stringValue"] = value["StringValue"]
    if value.get("BinaryValue") is not None:
        binary = value["BinaryValue"]
        shaped["binaryValue"] = base64.b64encode(
            binary if isinstance(binary, bytes) else binary.encode()
        ).decode()
    return shaped
