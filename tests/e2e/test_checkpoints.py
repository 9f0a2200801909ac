"""A job of twelve parts whose task is killed three times: the whole system, with Spark."""

import json
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from examples.demo import kill
from longhaul.domain.lease import State
from longhaul.domain.manifest import Manifest
from longhaul.domain.saved import PREFIX
from tests.e2e.conftest import Stack

pytestmark = pytest.mark.slow

MONTHS = [f"2013-{month:02}" for month in range(1, 13)]
KILLED_AFTER = ("2013-03", "2013-06", "2013-09")

JOB = """
import time
from pathlib import Path

from pyspark.sql import functions as F

from longhaul.job import Params as Base


class Params(Base):
    computed: str
    months: list[str]


def run(spark, job):
    computed = Path(job.params.computed)

    def noting(month):
        def note(value):
            with computed.open("a") as opened:
                opened.write(f"{month}\\n")
            return value

        return F.udf(note, "long")

    for number, month in enumerate(job.params.months, 1):
        frame = spark.range(number, numPartitions=1)
        frame = frame.select(noting(month)("id").alias("n"), F.lit(month).alias("month"))
        assert job.write(frame, part=month) == number
        # What the test waits for: the part is stored.
        (computed.parent / f"stored-{month}").touch()
        while (computed.parent / f"wait-{month}").exists():
            time.sleep(0.05)
"""


@dataclass
class Seen:
    """What the job and the test say to one another, in a folder."""

    folder: Path

    def computed(self, month: str) -> int:
        file = self.folder / "computed"
        return file.read_text().splitlines().count(month) if file.exists() else 0

    def is_stored(self, month: str) -> bool:
        return (self.folder / f"stored-{month}").exists()


def run(stack: Stack, job_id: str, output: str, folder: Path) -> Seen:
    """Run the job, with three kills, to its end."""
    folder.mkdir()
    seen = Seen(folder)
    stack.client("s3").put_object(Bucket=stack.bucket, Key="jobs/parts.py", Body=JOB.encode())
    for month in KILLED_AFTER:
        (folder / f"wait-{month}").touch()
    stack.send(
        json.dumps(
            {
                "job": f"s3://{stack.bucket}/jobs/parts.py",
                "job_id": job_id,
                "output": output,
                "max_attempts": 4,
                "params": {"computed": str(folder / "computed"), "months": MONTHS},
            }
        )
    )
    for attempt, month in enumerate(KILLED_AFTER, 1):
        stack.wait_for(lambda month=month: seen.is_stored(month), f"{month} is stored")
        row = stack.row(job_id)
        assert row is not None
        assert (row.attempt.number, row.has_saved) == (attempt, True)
        (folder / f"wait-{month}").unlink()
        assert kill.kill(row.key)
    row = stack.until(job_id, State.SUCCEEDED)
    # A process that dies by itself has failed, whatever it has stored.
    assert (row.attempt.number, row.failures, row.interruptions) == (4, 3, 0)
    assert row.attempt.progress["taken_over"].endswith("parts")
    return seen


def computed_once(seen: Seen) -> None:
    """Each part once; but for the one that was in flight at a kill."""
    counts = {month: seen.computed(month) for month in MONTHS}
    in_flight = {MONTHS[MONTHS.index(month) + 1] for month in KILLED_AFTER}
    for number, month in enumerate(MONTHS, 1):
        most = 2 * number if month in in_flight else number
        assert number <= counts[month] <= most, counts


def test_files_of_a_job_that_was_killed_three_times(stack: Stack, tmp_path: Path) -> None:
    seen = run(stack, "files", f"s3://{stack.bucket}/files/", tmp_path / "seen")
    computed_once(seen)
    s3, folder = stack.client("s3"), tmp_path / "read"
    folder.mkdir()
    manifest = Manifest.model_validate_json(
        s3.get_object(Bucket=stack.bucket, Key="files/_SUCCESS")["Body"].read()
    )
    assert manifest.rows == {".": 78}
    for n, file in enumerate(manifest.files):
        body = s3.get_object(Bucket=stack.bucket, Key=f"files/{file.path}")["Body"].read()
        (folder / f"{n}.parquet").write_bytes(body)
    parts = duckdb.read_parquet(f"{folder}/*.parquet")
    expected = [(month, n, n * (n - 1) // 2) for n, month in enumerate(MONTHS, 1)]
    counted = parts.aggregate("month, count(*), sum(n)", "month").order("month")
    assert counted.fetchall() == expected
    stack.wait_for(stack.is_quiet, "no message, no execution and no slot left")
    left = s3.list_objects_v2(Bucket=stack.bucket, Prefix=PREFIX)
    assert "Contents" not in left


def test_a_table_of_a_job_that_was_killed_three_times(stack: Stack, tmp_path: Path) -> None:
    seen = run(stack, "table", "table://longhaul/parts", tmp_path / "seen")
    computed_once(seen)
    assert stack.table_rows("parts") == sorted(
        (n, month) for number, month in enumerate(MONTHS, 1) for n in range(number)
    )
    stack.wait_for(stack.is_quiet, "no message, no execution and no slot left")
