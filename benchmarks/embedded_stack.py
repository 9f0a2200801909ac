"""The stack on an embedded AWS, with the timing that it has on AWS, and without Spark.

Its tasks are processes of the real runner (`standin`), whose jobs do the work of
`benchmarks.timed_work`. Each call that the embedded AWS gets is noted.
"""

import io
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from benchmarks.timed_work import EVENTS, Work, events
from longhaul.cli.synth import ARCHITECTURES, synth
from longhaul.config.settings import CONTEXT_KEY
from longhaul.config.sources import sources
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client

_STAND_IN: Final = Path(__file__).parent / "standin"
_SERVICE = 3  # in a signature's scope: key, date, region, service


@dataclass(frozen=True)
class Call:
    """One call, at a Unix time. Only those of SQS have a queue, and a body."""

    service: str
    operation: str
    queue: str
    at: float
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Stack:
    aws: EmbeddedAws
    queue_url: str
    bucket: str
    events_file: Path
    calls: list[Call] = field(default_factory=list)

    @property
    def queue(self) -> str:
        """Its name."""
        return self.queue_url.rpartition("/")[2]

    def send(self, *works: Work) -> None:
        sqs = aws_client("sqs", endpoint=self.aws.endpoint, region=self.aws.region)
        for work in works:
            body = {
                "job": "sql",
                "job_id": work.id,
                "output": f"s3://{self.bucket}/{work.id}/",
                "params": {"work": work.to_json()},
            }
            sqs.send_message(QueueUrl=self.queue_url, MessageBody=json.dumps(body))

    def events(self) -> list[dict[str, Any]]:
        """What all jobs have noted so far, as `timed_work.events`."""
        return events(self.events_file)


@contextmanager
def running_stack(folder: Path, slots: int) -> Iterator[Stack]:
    """A stack in an AWS of its own, for as long as the block runs; `folder` gets its files."""
    events_file = folder / "events"
    embedded = EmbeddedAws(
        work_dir=folder / "aws",
        task_dir=_STAND_IN,
        # The stand-in needs `benchmarks`, which is not installed.
        task_environment={EVENTS: str(events_file), "PYTHONPATH": str(sources())},
    )
    settings = {
        "architecture": ARCHITECTURES[os.uname().machine],
        "stages": [{"name": "main", "slots": slots}],
    }
    with embedded as aws:
        assembly = synth(folder / "cdk.out", profile=None, context={CONTEXT_KEY: settings})
        outputs = aws.deploy(assembly, "Longhaul")
        stack = Stack(aws, outputs["JobsQueueUrl"], outputs["DataBucketName"], events_file)
        with _noted(aws, stack.calls):
            yield stack


@contextmanager
def _noted(aws: EmbeddedAws, calls: list[Call]) -> Iterator[None]:
    server: Any = aws._server._server  # noqa: SLF001 - what serves it
    app = server.app

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        calls.append(parse_call(environ, body))
        answer: Iterable[bytes] = app(environ, start_response)
        return answer

    server.app = serve
    try:
        yield
    finally:
        server.app = app


def parse_call(environ: dict[str, Any], body: bytes) -> Call:
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
