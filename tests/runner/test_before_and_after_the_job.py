"""What the end of an attempt would refuse, before its job computes; and whose wait its end is."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from longhaul.core.lease import AttemptId
from longhaul.core.verdict import ExitCode
from longhaul.job import Job
from longhaul.outputs.manifest import MANIFEST, Manifest, ManifestFile
from tests.builders import BUCKET
from tests.runner.conftest import Cloud, MakeAttempt

ROWS = pa.table({"n": range(3)})


class Watched:
    """S3, with something before each call."""

    def __init__(self, s3: Any, before: Callable[[], None]) -> None:
        self.s3 = s3
        self.before = before

    def __getattr__(self, name: str) -> Any:
        self.before()
        return getattr(self.s3, name)


def publish(cloud: Cloud, file: str) -> None:
    """Another job's output at the place of this one's, with this file."""
    other = AttemptId("main#other", 1767323045000, 1)
    files = (ManifestFile(path=file, size=1),)
    body = Manifest(key=other.key, run=other.run, attempt=1, files=files).model_dump_json()
    cloud.s3.put_object(Bucket=BUCKET, Key=f"out/{MANIFEST}", Body=body.encode())


def unread() -> pa.RecordBatchReader:
    """A frame that may not be computed."""

    def batches() -> Iterator[pa.RecordBatch]:
        pytest.fail("computed for nothing")
        yield

    return pa.RecordBatchReader.from_batches(ROWS.schema, batches())


@pytest.mark.parametrize(
    ("there", "part", "said"),
    [
        ("part-0.json", None, "holds json files"),
        ("part-0.json", "first", "holds json files"),
        ("day=1/part-0.parquet", None, "is parted by day"),
    ],
)
def test_what_cannot_be_appended_is_refused_before_anything_is_computed(
    cloud: Cloud, make_plain_attempt: MakeAttempt, there: str, part: str | None, said: str
) -> None:
    publish(cloud, there)
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/", mode="append")

    def run(job: Job[Any]) -> None:
        job.write(ROWS, "new")
        job.write(unread(), part=part)

    assert make_plain_attempt(run).run() is ExitCode.PERMANENT
    assert said in cloud.result().error


def test_an_output_that_was_replaced_since_takes_its_new_format(
    cloud: Cloud, make_plain_attempt: MakeAttempt
) -> None:
    publish(cloud, "part-0.json")
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/", mode="append")

    def run(job: Job[Any]) -> None:
        publish(cloud, "part-0.parquet")
        job.write(ROWS)

    assert make_plain_attempt(run).run() is ExitCode.OK


def test_a_wait_for_s3_is_none_of_the_jobs_from_its_end_on(
    cloud: Cloud, make_plain_attempt: MakeAttempt
) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    ended, phases = threading.Event(), list[str]()

    def before() -> None:
        if ended.is_set():
            phases.append(made.progress.phase)

    def run(job: Job[Any]) -> None:
        job.write(ROWS)
        ended.set()

    made = make_plain_attempt(run, s3=Watched(cloud.s3, before))
    assert made.run() is ExitCode.OK
    assert set(phases) == {"publishing"}
