"""One Spark for all tests of jobs, on the gateway that the runner uses."""

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.moto_api._internal.models import moto_api_backend
from pyspark.sql import SparkSession

from longhaul.core import transitions
from longhaul.core.background import Threads
from longhaul.core.clients import SystemClock
from longhaul.core.job_kinds import JobKind
from longhaul.core.lease import CommittedOutput, Lease, RecordedResult
from longhaul.core.message import Message
from longhaul.core.objects import S3Requests
from longhaul.core.request import JobRequest
from longhaul.core.settings import LeaseSettings
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.local.moto_repairs import dynamodb as dynamodb_repairs
from longhaul.local.moto_repairs import glue as glue_repairs
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.manifest import Manifest
from longhaul.outputs.publisher import S3Publisher, read_manifest
from longhaul.runner.attempt import AttemptRunner
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.job_file import JOBS_VARIABLE
from longhaul.runner.loading import find_job
from longhaul.runner.plain.python import SparkOnDemand
from longhaul.runner.reporting import ProcessTree
from longhaul.runner.spark.driver import BaseSpark
from longhaul.runner.stopping import Stop
from longhaul.runner.task import Task
from longhaul.testing import MakeJob
from longhaul.testing.session import RESOURCES
from simulation.aws.leases_table import creation
from tests.builders import BUCKET, body, running, settings, stage, there
from tests.layers import DEMO_JOBS
from tests.runner.job_attempts import (
    OUTPUT,
    Attempts,
    Either,
    PlainFrames,
    found_job,
    no_jvm,
    plain_job,
)
from tests.servers import moto_server, repaired


@dataclass
class Cloud:
    """Table, bucket and lease of one attempt, on moto."""

    s3: Any
    dynamodb: Any
    leases: DynamoLeases
    tables: Tables | None = None

    def lease(self) -> Lease:
        return there(self.leases.load("main#january"))

    def claim(self, **request: Any) -> Lease:
        """A job with this request, claimed; its message is where the runner looks for it."""
        asked = JobRequest.model_validate_json(body(**request))
        lease = running(places=asked.where_outputs_go)
        given = lease.input.model_copy(update={"job": asked.job})
        lease = replace(lease, execution_input=given.model_dump_json())
        S3Requests(self.s3, BUCKET).put(lease.request_ref, Message(body(**request), {}))
        self.leases.apply(transitions.claim(None, lease, stage()))
        return lease

    def output(self) -> CommittedOutput:
        """What the attempt has committed."""
        return there(self.lease().attempt.output)

    def result(self) -> RecordedResult:
        """How the attempt failed, as it has recorded it."""
        return there(self.lease().attempt.result)

    def manifest(self, prefix: str = OUTPUT) -> Manifest:
        return there(read_manifest(self.s3, BUCKET, prefix)[0])

    def objects(self, prefix: str) -> list[str]:
        return [
            item["Key"]
            for item in self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        ]

    def pending_uploads(self) -> list[str]:
        return [
            upload["Key"]
            for upload in self.s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        ]


def build_cloud(endpoint: str | None = None) -> Cloud:
    s3, dynamodb = (
        boto3.client("s3", endpoint_url=endpoint),
        boto3.client("dynamodb", endpoint_url=endpoint),
    )
    s3.create_bucket(Bucket=BUCKET)
    dynamodb.create_table(**creation("leases"))
    return Cloud(
        s3, dynamodb, DynamoLeases(Records(dynamodb, "leases", SystemClock(), random.Random(1)))
    )


@pytest.fixture
def use_jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Lets tasks find the jobs of a folder by their names, as in the image of its project."""
    used: list[Path] = []

    def use(folder: Path) -> None:
        monkeypatch.setenv(JOBS_VARIABLE, str(folder))
        monkeypatch.syspath_prepend(folder)
        used.append(folder)

    yield use
    for folder in used:
        for file in folder.glob("*.py"):
            sys.modules.pop(file.stem, None)


@pytest.fixture
def demo_jobs(use_jobs: Callable[[Path], None]) -> None:
    use_jobs(DEMO_JOBS)


@pytest.fixture
def s3() -> Iterator[Any]:
    """An S3 with the bucket `data`, for the tests of what runs on nothing else."""
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="data")
        yield client


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    # Progress is written from a thread of its own, and stock moto is not made for two.
    with repaired(dynamodb_repairs.atomic), mock_aws():
        yield build_cloud()


@pytest.fixture
def tables(cloud: Cloud) -> Iterator[Tables]:
    """The catalogue of that account, with the database `lake`, for its attempts too."""
    with repaired(glue_repairs.versions):
        glue = boto3.client("glue")
        glue.create_database(DatabaseInput={"Name": "lake"})
        cloud.tables = Tables(lambda: glue, cloud.s3, BUCKET)
        yield cloud.tables


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture
def remote(moto: str) -> Cloud:
    moto_api_backend.reset()
    return build_cloud(moto)


MakeAttempt = Callable[..., AttemptRunner]


class SharedSpark(BaseSpark):
    """The session of all tests, for one attempt."""

    def __init__(self, session: SparkSession, stop: Stop) -> None:
        super().__init__(RESOURCES, stop, watch_every_s=0.025)
        self._session.set_result(session)

    def close(self) -> None:
        """Leave it to the other tests."""


@pytest.fixture
def make_attempt(
    cloud: Cloud,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> MakeAttempt:
    """The attempt that owns the lease; `run` takes the place of the job in the catalogue.

    A job without inputs is claimed if none is. Without another in its place, its Spark is the
    session of all tests; a job of the kind without has none.
    """

    def make(run: Any = None, kind: JobKind = JobKind.SPARK, **changes: Any) -> AttemptRunner:
        in_its_place: Any = found_job if kind is JobKind.SPARK else plain_job
        stop = changes.pop("stop", None) or Stop()
        lease = cloud.leases.load("main#january") or cloud.claim(inputs={})
        values: dict[str, Any] = {
            "id": lease.id,
            "settings": settings(lease=LeaseSettings(progress_period_s=0.05)),
            "task": Task("arn:task/1", RESOURCES),
            "clock": SystemClock(),
            "background": Threads(),
            "leases": cloud.leases,
            "reports": cloud.leases,
            "requests": S3Requests(cloud.s3, BUCKET),
            "publisher": S3Publisher(cloud.s3, BUCKET),
            "s3": cloud.s3,
            "scratch": tmp_path / "scratch",
            "area": DiskArea(cloud.s3, tmp_path / "scratch", {}),
            "effort": ProcessTree().effort,
            "find_job": find_job if run is None else lambda *_: in_its_place(run),
            "variables": {},
            "secret_values": None,
            "stop": stop,
        }
        if tables := cloud.tables:
            values["tables"] = lambda: tables
            values["publisher"] = S3Publisher(cloud.s3, BUCKET, tables=values["tables"])
        if "spark" not in changes:
            values["spark"] = (
                SharedSpark(request.getfixturevalue("spark"), stop)
                if kind is JobKind.SPARK
                else SparkOnDemand(no_jvm, stop)
            )
        return AttemptRunner(**{**values, **changes})

    return make


@pytest.fixture
def make_plain_attempt(make_attempt: MakeAttempt) -> MakeAttempt:
    """The same for a job without Spark."""
    return partial(make_attempt, kind=JobKind.PLAIN)


@pytest.fixture
def attempts(
    cloud: Cloud, make_attempt: MakeAttempt, tmp_path: Path, request: pytest.FixtureRequest
) -> Attempts:
    """With Spark, or as `EACH_KIND` says."""
    kind = getattr(request, "param", JobKind.SPARK)
    return Attempts(cloud, make_attempt, tmp_path / "attempts", kind)


@pytest.fixture(params=["spark", "plain"])
def either(request: pytest.FixtureRequest, make_job: MakeJob) -> Either:
    if request.param == "plain":
        return Either(partial(make_job, plain=True), PlainFrames())
    return Either(make_job, request.getfixturevalue("spark"))
