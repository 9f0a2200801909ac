"""Puts an attempt together: clients, adapters, Spark.

Apart from the runners, because its imports take as long as a JVM takes to boot.
"""

import os
import random
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import boto3
import psutil
from botocore.config import Config

from longhaul.core.clients import SystemClock
from longhaul.core.job_kinds import JobKind
from longhaul.core.lease import AttemptId
from longhaul.core.objects import S3Requests
from longhaul.core.ports import Background, Clock
from longhaul.core.settings import RuntimeSettings, job_variables, runtime_settings
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.engines.emr_serverless.ends import reference
from longhaul.outputs.lazy_tables import tables_of
from longhaul.outputs.publisher import S3Publisher
from longhaul.runner import json_logs
from longhaul.runner.attempt import AttemptRunner, FindJob, Spark
from longhaul.runner.io.work_area import DiskArea, WorkArea, area_at
from longhaul.runner.loading import find_job
from longhaul.runner.plain.python import SparkOnDemand
from longhaul.runner.reporting import Effort, ProcessTree
from longhaul.runner.stopping import Stop
from longhaul.runner.task import Task
from longhaul.runner.variables import AwsSecretValues

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

    from longhaul.outputs.iceberg.catalog import Tables
    from longhaul.runner.spark.gateway import LateGateway

# Transfers use up to this many connections at once; the retries cover S3's and DynamoDB's
# throttles.
_AWS: Final = Config(max_pool_connections=48, retries={"mode": "standard", "total_max_attempts": 8})
# Give up fast: a report retried for minutes carries an old timestamp and looks like a stall.
REPORTING: Final = Config(
    connect_timeout=2,
    read_timeout=4,
    retries={"mode": "standard", "total_max_attempts": 2},
    max_pool_connections=2,
)


def task_attempt(
    task: Task, gateway: "LateGateway", scratch: Path, stop: Stop, background: Background
) -> AttemptRunner:
    """The attempt that the environment names, with a JVM of its own if its job needs one."""

    def make_spark() -> Spark:
        # Needs the JVM's package, which a cluster's driver does not have; and imports PySpark.
        from longhaul.runner.spark.driver import LocalSpark  # noqa: PLC0415

        return LocalSpark(
            gateway.start(),
            attempt_id.execution_name,
            task.resources,
            scratch,
            stop,
            watch_every_s=_watch_period_s(settings),
        )

    attempt_id, settings = attempt_from_environment(), runtime_settings()
    s3 = s3_client(settings)
    attempt = put_together(
        attempt_id,
        settings,
        s3,
        task=task,
        scratch=scratch,
        area=_disk_area(settings, s3, scratch),
        spark=SparkOnDemand(make_spark, stop),
        stop=stop,
        background=background,
        tables=tables_from(settings, s3),
    )
    if gateway.is_started:
        attempt.spark.begin(JobKind.SPARK)
    return attempt


def cluster_attempt(scratch: Path, stop: Stop, background: Background) -> AttemptRunner:
    """The attempt that the environment names, on the cluster whose driver this process is.

    Raises:
        RuntimeError: the settings name no EMR Serverless application.
    """
    # Talks to a JVM that is there already.
    from longhaul.runner.spark.driver import ClusterSpark, submitted_resources  # noqa: PLC0415

    attempt_id, settings = attempt_from_environment(), runtime_settings()
    s3 = s3_client(settings)
    engine = settings.emr_serverless
    if engine is None:
        raise RuntimeError(
            "the settings name no application: this is started by EMR Serverless (or by"
            " `longhaul up`)"
        )
    resources = submitted_resources()
    spark = ClusterSpark(
        attempt_id.execution_name,
        resources,
        scratch,
        stop,
        watch_every_s=_watch_period_s(settings),
    )
    return put_together(
        attempt_id,
        settings,
        s3,
        task=Task(reference(engine.application_arn, attempt_id), resources),
        scratch=scratch,
        area=area_at(engine.work_area, s3, attempt_id, _disk_area(settings, s3, scratch)),
        spark=spark,
        stop=stop,
        background=background,
        # spark-submit's JVM, which started us.
        effort=ProcessTree(psutil.Process().parent()).effort,
    )


def attempt_from_environment() -> AttemptId:
    """The attempt that LONGHAUL_KEY, LONGHAUL_RUN and LONGHAUL_ATTEMPT name; logs are set up."""
    attempt_id = AttemptId(
        os.environ["LONGHAUL_KEY"],
        int(os.environ["LONGHAUL_RUN"]),
        int(os.environ["LONGHAUL_ATTEMPT"]),
    )
    json_logs.configure(**json_logs.fields(attempt_id))
    return attempt_id


def _client(settings: RuntimeSettings, service: str, config: Config = _AWS) -> Any:  # noqa: ANN401 - any client
    return boto3.client(service, config=config, endpoint_url=settings.endpoint_url)  # type: ignore[call-overload]  # each service has its own


def s3_client(settings: RuntimeSettings) -> "S3Client":
    client: S3Client = _client(settings, "s3")
    return client


def _disk_area(settings: RuntimeSettings, s3: "S3Client", scratch: Path) -> DiskArea:
    return DiskArea(s3, scratch, settings.tasks.disk_gib)


def put_together(  # noqa: PLR0913 - what differs between the engines and the simulation
    attempt_id: AttemptId,
    settings: RuntimeSettings,
    s3: "S3Client",
    *,
    task: Task,
    scratch: Path,
    area: WorkArea,
    spark: Spark,
    stop: Stop,
    background: Background,
    tables: "Callable[[], Tables] | None" = None,
    find_job: FindJob = find_job,
    effort: "Callable[[], Effort] | None" = None,
    clock: Clock = SystemClock(),  # noqa: B008 - stateless
    rng: random.Random | None = None,
) -> AttemptRunner:
    """The attempt, with its adapters."""
    bucket = settings.paths.data_bucket

    def leases(config: Config) -> DynamoLeases:
        return DynamoLeases(
            Records(
                _client(settings, "dynamodb", config),
                settings.leases_table,
                clock,
                rng or random.Random(),  # noqa: S311 - jitter, not secrets
            )
        )

    return AttemptRunner(
        id=attempt_id,
        settings=settings,
        task=task,
        clock=clock,
        background=background,
        leases=leases(_AWS),
        reports=leases(REPORTING),
        requests=S3Requests(s3, bucket),
        publisher=S3Publisher(s3, bucket, clock, background, tables),
        s3=s3,
        scratch=scratch,
        area=area,
        spark=spark,
        find_job=find_job,
        variables=job_variables(),
        secret_values=AwsSecretValues(partial(_client, settings)),
        stop=stop,
        tables=tables,
        effort=effort or ProcessTree().effort,
    )


def tables_from(settings: RuntimeSettings, s3: "S3Client") -> "Callable[[], Tables] | None":
    if not settings.paths.table_databases:
        return None
    # A task may have the memory for tables that no function reads.
    return tables_of(
        lambda: _client(settings, "glue"), s3, settings.paths.data_bucket, is_bounded=False
    )


def _watch_period_s(settings: RuntimeSettings) -> float:
    return settings.lease.progress_period_s / 2
