"""The stack on an embedded AWS, with the timing that it has on AWS, and without Spark.

Its tasks are processes of the real runner (`standin`), whose jobs do the work of
`benchmarks.timed_work`. Each start of an execution is noted.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.timed_work import EVENTS, Work, events
from longhaul.cli.synth import ARCHITECTURES, synth
from longhaul.config.settings import CONTEXT_KEY
from longhaul.config.sources import sources
from longhaul.core.clients import SystemClock
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client

_STAND_IN: Final = Path(__file__).parent / "standin"
STAGE: Final = "main"


@dataclass
class Stack:
    aws: EmbeddedAws
    queue_url: str
    bucket: str
    leases: DynamoLeases
    events_file: Path
    started_at: list[float] = field(default_factory=list)  # the executions, in Unix seconds

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
        "stages": [{"name": STAGE, "slots": slots}],
    }
    with embedded as aws:
        assembly = synth(folder / "cdk.out", profile=None, context={CONTEXT_KEY: settings})
        outputs = aws.deploy(assembly, "Longhaul")
        leases = DynamoLeases(
            Records(
                aws_client("dynamodb", endpoint=aws.endpoint, region=aws.region),
                outputs["LeasesTableName"],
                SystemClock(),
                random.Random(),  # noqa: S311 - of back-offs
            )
        )
        queue_url, bucket = outputs["JobsQueueUrl"], outputs["DataBucketName"]
        stack = Stack(aws, queue_url, bucket, leases, events_file)
        with _noted(aws, stack.started_at):
            yield stack


@contextmanager
def _noted(aws: EmbeddedAws, started_at: list[float]) -> Iterator[None]:
    server: Any = aws._server._server  # noqa: SLF001 - what serves it
    app = server.app

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("HTTP_X_AMZ_TARGET", "").endswith(".StartExecution"):
            started_at.append(time.time())
        answer: Iterable[bytes] = app(environ, start_response)
        return answer

    server.app = serve
    try:
        yield
    finally:
        server.app = app
