"""Longhaul's side: tasks on the embedded AWS, each with a lease and a request of its own."""

import json
import random
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from longhaul.config.sources import sources
from longhaul.core import transitions
from longhaul.core.claim import new_run
from longhaul.core.clients import SystemClock
from longhaul.core.lease import job_key
from longhaul.core.message import JobMessage, Message
from longhaul.core.objects import S3Requests
from longhaul.core.request import JobRequest
from longhaul.core.settings import VARIABLE, PathPolicy, RuntimeSettings, Stage
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client
from longhaul.local.ecs_driver import TaskEnd, TaskSpec
from longhaul.runner.resources import Resources
from simulation.aws.leases_table import creation

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUCKET: Final = "longhaul-data"
_TABLE: Final = "leases"
_JOBS: Final = (
    *("first_line", "first_line_spark", "first_result", "clean_rows", "rows_in_parts"),
    *("rows_of_inputs", "wav_previews", "wav_previews_plain"),
)
_STAGE: Final = Stage(
    slots=1000, queue_url="https://sqs/jobs", dead_letter_queue_url="https://sqs/dead-letters"
)
SETTINGS: Final = RuntimeSettings(
    leases_table=_TABLE,
    stages=(_STAGE,),
    paths=PathPolicy(data_bucket=BUCKET),
    jobs=_JOBS,
    state_machine_arn="arn:aws:states:us-east-1:123456789012:stateMachine:Longhaul",
    cluster_arn="arn:aws:ecs:us-east-1:123456789012:cluster/Longhaul",
    job_log_group="/longhaul/jobs",
)


class _Ended:
    """Waits for the end of a task."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._end: TaskEnd | None = None

    def started(self, at: datetime) -> None:
        """Do nothing: the time counts from before the start."""

    def ended(self, end: TaskEnd) -> None:
        self._end = end
        self._event.set()

    def wait(self, seconds: float) -> int | None:
        """The exit code; None when the task did not end in time."""
        return self._end.exit_code if self._event.wait(seconds) and self._end else None


@dataclass(frozen=True)
class TaskRunner:
    """Runs jobs of `benchmarks.catalogue`, each as a task."""

    aws: EmbeddedAws
    s3: "S3Client"
    leases: DynamoLeases
    resources: Resources
    environment: Mapping[str, str]

    def run(self, job: str, inputs: dict[str, str], limit_s: float = 900, **params: Any) -> None:  # noqa: ANN401 - JSON
        """Claim a lease, run the task, and wait for its end.

        Raises:
            RuntimeError: the task failed; the message is the end of its log.
        """
        body = {
            "job": job,
            "inputs": inputs,
            "output": new_output(),
            "params": params,
        }
        lease_id = self.claim(body)
        task = f"arn:aws:ecs:us-east-1:123456789012:task/Longhaul/{uuid.uuid4()}"
        ended = _Ended()
        spec = TaskSpec(
            arn=task,
            cluster_arn=SETTINGS.cluster_arn,
            family="benchmark",
            revision=1,
            container="job",
            command=("python", "-m", "benchmarks.runner"),
            environment={
                **self.environment,
                **lease_id,
                VARIABLE: SETTINGS.model_dump_json(),
            },
            vcpu=self.resources.cores,
            memory_mib=self.resources.memory_mib,
        )
        self.aws.tasks.run(spec, ended)
        if ended.wait(limit_s) != 0:
            raise RuntimeError(
                f"the task failed:\n{self.aws.tasks.log_of(task).read_text()[-2000:]}"
            )

    def claim(self, body: dict[str, Any]) -> dict[str, str]:
        """Claim a lease for the request; the variables that name its attempt to a runner."""
        key, now = job_key("main", str(uuid.uuid4())), SystemClock().now()
        message = JobMessage(
            message_id=str(uuid.uuid4()),
            receipt_handle="handle",
            receive_count=1,
            received_at=now,
            sent_at=now,
            first_sent_at=now,
            request=JobRequest.model_validate(body),
            key=key,
            content=Message(json.dumps(body), {}),
        )
        lease = new_run(None, message, _STAGE, SETTINGS.lease, now)
        S3Requests(self.s3, BUCKET).put(lease.request_ref, message.content)
        self.leases.apply(transitions.claim(None, lease, _STAGE))
        return {
            "LONGHAUL_KEY": lease.key,
            "LONGHAUL_RUN": str(lease.run),
            "LONGHAUL_ATTEMPT": str(lease.attempt.number),
            "LONGHAUL_JOB": lease.input.job or "",
        }


def new_output() -> str:
    """A path for the output of a request, of its own."""
    return f"s3://{BUCKET}/out/{uuid.uuid4()}/"


@contextmanager
def tasks(
    folder: Path, resources: Resources, environment: Mapping[str, str] | None = None
) -> Iterator[TaskRunner]:
    """An embedded AWS with a bucket and a table, while the block runs.

    `environment` is for the tasks, beside what every task gets.
    """
    with EmbeddedAws(work_dir=folder / "aws", task_dir=sources()) as aws:
        s3 = aws_client("s3", endpoint=aws.endpoint, region=aws.region)
        dynamodb = aws_client("dynamodb", endpoint=aws.endpoint, region=aws.region)
        s3.create_bucket(Bucket=BUCKET)
        dynamodb.create_table(**creation(_TABLE))
        leases = DynamoLeases(Records(dynamodb, _TABLE, SystemClock(), random.Random()))  # noqa: S311 - jitter
        yield TaskRunner(aws, s3, leases, resources, environment or {})
