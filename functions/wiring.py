"""How the parts are put together for the functions: clients with tight timeouts, adapters, use cases. Built once per process, only what a function needs."""

import random
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from longhaul.adapters.clock import SystemClock
from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.adapters.ecs_tasks import EcsTasks
from longhaul.adapters.emf_metrics import EmfMetrics
from longhaul.adapters.emr_job_runs import EmrJobRuns
from longhaul.adapters.engine_tasks import EngineTasks
from longhaul.adapters.s3_publisher import S3Publisher
from longhaul.adapters.s3_requests import S3Requests
from longhaul.adapters.sfn_executions import SfnExecutions
from longhaul.adapters.sqs_queue import SqsQueue
from longhaul.finish import Finisher
from longhaul.ports import Tasks
from longhaul.settings import RuntimeSettings, runtime_settings
from longhaul.settle import Settler

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_QUICK = Config(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "max_attempts": 4}, max_pool_connections=20
)
"""Every call here answers in milliseconds: one that hangs is better tried again, inside the function's own timeout."""

_PUBLISHING = Config(
    connect_timeout=2, read_timeout=60, retries={"mode": "standard", "max_attempts": 6}, max_pool_connections=20
)
"""CompleteMultipartUpload of a large file takes S3 its time."""


class Wiring:
    """Each part on first use."""

    def __init__(self, settings: RuntimeSettings, client: Callable[..., Any] | None = None) -> None:
        """`client` makes boto3's clients: of another session than the process's own, when it is given."""
        self.settings = settings
        self._client = client or boto3.client
        self.clock = SystemClock()
        self.rng = random.Random()  # noqa: S311 - jitter, not secrets
        self.metrics = EmfMetrics(settings.metrics_namespace)

    @cached_property
    def leases(self) -> DynamoLeases:
        return DynamoLeases(
            self._client("dynamodb", config=_QUICK, endpoint_url=self.settings.endpoint_url),
            self.settings.leases_table,
            self.clock,
            self.rng,
        )

    @cached_property
    def queue(self) -> SqsQueue:
        return SqsQueue(self._client("sqs", config=_QUICK, endpoint_url=self.settings.endpoint_url))

    @cached_property
    def executions(self) -> SfnExecutions:
        return SfnExecutions(
            self._client("stepfunctions", config=_QUICK, endpoint_url=self.settings.endpoint_url),
            self.settings.state_machine_arn,
        )

    @cached_property
    def tasks(self) -> Tasks:
        fargate = EcsTasks(
            self._client("ecs", config=_QUICK, endpoint_url=self.settings.endpoint_url), self.settings.cluster_arn
        )
        if self.settings.emr_serverless is None:
            return fargate
        client = self._client("emr-serverless", config=_QUICK, endpoint_url=self.settings.endpoint_url)
        return EngineTasks(
            fargate=fargate, emr_serverless=EmrJobRuns(client, self.settings.emr_serverless.application_arn)
        )

    @cached_property
    def _s3(self) -> "S3Client":
        return self._client("s3", config=_PUBLISHING, endpoint_url=self.settings.endpoint_url)

    @cached_property
    def requests(self) -> S3Requests:
        return S3Requests(self._s3, self.settings.paths.data_bucket)

    @cached_property
    def publisher(self) -> S3Publisher:
        return S3Publisher(self._s3, self.settings.paths.data_bucket, self.clock.sleep)

    @cached_property
    def finisher(self) -> Finisher:
        return Finisher(
            self.settings, self.clock, self.leases, self.queue, self.requests, self.publisher, self.executions
        )

    @cached_property
    def settler(self) -> Settler:
        return Settler(
            self.settings,
            self.clock,
            self.rng,
            self.leases,
            self.tasks,
            self.publisher,
            self.finisher,
            self.metrics,
        )


def wiring() -> Wiring:
    """The parts for this process's settings."""
    return Wiring(runtime_settings())
