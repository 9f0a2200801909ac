"""Puts an attempt together from its environment. Apart from the runner, because all that this imports takes as long as a JVM takes to boot."""

import os
import random
from pathlib import Path
from typing import Final

import boto3
from botocore.config import Config

from jobs import logs
from jobs.attempt import Attempt
from jobs.spark.gateway import Gateway
from jobs.spark.running import RunningSpark
from jobs.stopping import Stop
from jobs.task import Task
from longhaul.adapters.clock import SystemClock
from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.adapters.s3_publisher import S3Publisher
from longhaul.adapters.s3_requests import S3Requests
from longhaul.domain.lease import AttemptId
from longhaul.settings import runtime_settings

# Transfers use up to this many connections at once; retries cover S3's and DynamoDB's throttles.
_AWS: Final = Config(max_pool_connections=48, retries={"mode": "standard", "total_max_attempts": 8})
# A progress report that AWS does not take within seconds is better made anew: while it is tried again, it goes on telling an old time, and minutes of that are
# what a stalled job looks like.
REPORTING: Final = Config(
    connect_timeout=2, read_timeout=4, retries={"mode": "standard", "total_max_attempts": 2}, max_pool_connections=2
)


def attempt_of(task: Task, gateway: Gateway, scratch: Path, stop: Stop) -> Attempt:
    """The attempt that the environment names: LONGHAUL_KEY, LONGHAUL_RUN, LONGHAUL_ATTEMPT, and LONGHAUL_SETTINGS for the surroundings."""
    attempt_id = AttemptId(
        os.environ["LONGHAUL_KEY"], int(os.environ["LONGHAUL_RUN"]), int(os.environ["LONGHAUL_ATTEMPT"])
    )
    logs.configure(
        job_id=attempt_id.key.partition("#")[2], attempt=attempt_id.attempt, execution=attempt_id.execution_name
    )
    spark = RunningSpark(gateway, attempt_id.execution_name, task.resources, scratch, stop)
    settings = runtime_settings()
    s3, clock = boto3.client("s3", config=_AWS), SystemClock()
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
        spark=spark,
        stop=stop,
    )
