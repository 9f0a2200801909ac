"""Puts an attempt together from its environment. Apart from the runners, because all that this imports takes as long as a JVM takes to boot."""

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Final

import boto3
import psutil
from botocore.config import Config

from jobs import logs
from jobs.attempt import Attempt, Spark
from jobs.io.work_area import DiskArea, WorkArea, area_at
from jobs.spark.progress import ProcessTree, Vantage
from jobs.stopping import Stop
from jobs.task import Task
from longhaul.adapters.clock import SystemClock
from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.adapters.s3_publisher import S3Publisher
from longhaul.adapters.s3_requests import S3Requests
from longhaul.domain import job_run
from longhaul.domain.lease import AttemptId
from longhaul.settings import RuntimeSettings, runtime_settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from jobs.spark.gateway import Gateway

# Transfers use up to this many connections at once; retries cover S3's and DynamoDB's throttles.
_AWS: Final = Config(max_pool_connections=48, retries={"mode": "standard", "total_max_attempts": 8})
# A progress report that AWS does not take within seconds is better made anew: while it is tried again, it goes on telling an old time, and minutes of that are
# what a stalled job looks like.
REPORTING: Final = Config(
    connect_timeout=2, read_timeout=4, retries={"mode": "standard", "total_max_attempts": 2}, max_pool_connections=2
)


def attempt_of(task: Task, gateway: "Gateway", scratch: Path, stop: Stop) -> Attempt:
    """The attempt that the environment names: LONGHAUL_KEY, LONGHAUL_RUN, LONGHAUL_ATTEMPT, and LONGHAUL_SETTINGS for the surroundings."""
    from jobs.spark.running import RunningSpark  # noqa: PLC0415 - needs the JVM's package, which a cluster's driver has not

    attempt_id = _named()
    spark = RunningSpark(gateway, attempt_id.execution_name, task.resources, scratch, stop)
    settings, s3 = runtime_settings(), _s3()
    return _attempt(
        attempt_id,
        settings,
        s3,
        task=task,
        scratch=scratch,
        area=DiskArea(s3, scratch, settings.tasks.disk_gib),
        spark=spark,
        stop=stop,
    )


def cluster_attempt(scratch: Path, stop: Stop) -> Attempt:
    """The attempt that the environment names, as `attempt_of`, on the cluster whose driver this process is.

    Raises:
        RuntimeError: the settings know of no such engine.
    """
    from jobs.spark.cluster import ClusterSpark, submitted_resources  # noqa: PLC0415 - talks to a JVM that is there already

    attempt_id, settings, s3 = _named(), runtime_settings(), _s3()
    if settings.emr_serverless is None:
        raise RuntimeError("the settings name no application: this is started by EMR Serverless (or by `longhaul up`)")
    resources = submitted_resources()
    spark = ClusterSpark(attempt_id.execution_name, resources, scratch, stop)
    return _attempt(
        attempt_id,
        settings,
        s3,
        task=Task(job_run.reference(settings.emr_serverless.application_arn, attempt_id), resources),
        scratch=scratch,
        area=area_at(settings.emr_serverless.work_area, s3, attempt_id, DiskArea(s3, scratch, settings.tasks.disk_gib)),
        spark=spark,
        stop=stop,
        # spark-submit's JVM, which started us.
        vantage=Vantage(tree=lambda: ProcessTree(psutil.Process().parent()), has_executors=True),
    )


def _named() -> AttemptId:
    attempt_id = AttemptId(
        os.environ["LONGHAUL_KEY"], int(os.environ["LONGHAUL_RUN"]), int(os.environ["LONGHAUL_ATTEMPT"])
    )
    logs.configure(
        job_id=attempt_id.key.partition("#")[2], attempt=attempt_id.attempt, execution=attempt_id.execution_name
    )
    return attempt_id


def _s3() -> "S3Client":
    return boto3.client("s3", config=_AWS)


def _attempt(  # noqa: PLR0913 - what differs between the engines
    attempt_id: AttemptId,
    settings: RuntimeSettings,
    s3: "S3Client",
    *,
    task: Task,
    scratch: Path,
    area: WorkArea,
    spark: Spark,
    stop: Stop,
    vantage: Vantage = Vantage(),  # noqa: B008 - frozen
) -> Attempt:
    clock = SystemClock()
    bucket = settings.paths.data_bucket

    def leases(config: Config) -> DynamoLeases:
        return DynamoLeases(boto3.client("dynamodb", config=config), settings.leases_table, clock, random.Random())  # noqa: S311 - jitter

    return Attempt(
        id=attempt_id,
        settings=settings,
        task=task,
        clock=clock,
        leases=leases(_AWS),
        reports=leases(REPORTING),
        requests=S3Requests(s3, bucket),
        publisher=S3Publisher(s3, bucket),
        s3=s3,
        scratch=scratch,
        area=area,
        spark=spark,
        stop=stop,
        vantage=vantage,
    )
