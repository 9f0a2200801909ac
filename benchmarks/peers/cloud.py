"""The AWS of one consumer: the embedded one, whose calls are written down."""

import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

from moto.sqs.models import sqs_backends

from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client

CAP_S = 12 * 3600
"""SQS takes back a message so long after its receive, whatever was extended."""

_SERVICE = 3  # in a signature's scope: key, date, region, service
DELETIONS: Final = ("DeleteMessage", "DeleteMessageBatch")


@dataclass(frozen=True)
class Call:
    """One call, at a Unix time. Only those of SQS have a queue, and a body."""

    service: str
    operation: str
    queue: str
    at: float
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Cloud:
    aws: EmbeddedAws
    calls: list[Call] = field(default_factory=list)

    def queue(self, name: str, visibility_s: int) -> str:
        """The URL of a new queue."""
        sqs = aws_client("sqs", endpoint=self.aws.endpoint, region=self.aws.region)
        attributes = {"VisibilityTimeout": str(visibility_s)}
        url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def calls_since(self, moment: float, queue: str | None = None) -> list[Call]:
        """The calls of all services, or those of SQS about one queue."""
        return [
            call
            for call in list(self.calls)
            if call.at >= moment and (queue is None or call.queue == queue)
        ]

    def deleted_at(self, queue: str) -> float | None:
        """The time of the first deletion from a queue."""
        calls = self.calls_since(0, queue)
        return next((call.at for call in calls if call.operation in DELETIONS), None)

    def age(self, queue: str, left_s: float) -> None:
        """Make SQS's twelve hours end in so many seconds for the queue's messages."""
        now_ms = time.time() * 1000
        backend: Any = sqs_backends[self.aws.account][self.aws.region]
        for message in backend.get_queue(queue)._messages:  # noqa: SLF001
            message.received_at_ms = now_ms - (CAP_S - left_s) * 1000


@contextmanager
def watched(aws: EmbeddedAws) -> Iterator[Cloud]:
    """Note each call that the running AWS gets."""
    cloud = Cloud(aws)
    server: Any = aws._server._server  # noqa: SLF001 - what serves it
    app = server.app

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        cloud.calls.append(call_of(environ, body))
        answer: Iterable[bytes] = app(environ, start_response)
        return answer

    server.app = serve
    try:
        yield cloud
    finally:
        server.app = app


def call_of(environ: dict[str, Any], body: bytes) -> Call:
    """The call that a request makes. SQS has two protocols."""
    scope = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].split("/")
    service = scope[_SERVICE] if len(scope) > _SERVICE else ""
    operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
    fields: Mapping[str, Any] = {}
    if service == "sqs" and operation:
        fields = json.loads(body)
    elif service == "sqs":
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        operation = fields["Action"]
    queue = fields.get("QueueUrl", "").rpartition("/")[2]
    return Call(service, operation, queue, time.time(), fields)
