"""Jobs that go on where they were cut off: the whole system, with Spark.

One of twelve parts is killed three times; a training is asked to stop.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from longhaul.core.lease import State
from longhaul.outputs.manifest import Manifest
from longhaul.saved.record import PREFIX
from tests.builders import there
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

    def noting(month, before):
        wait = computed.parent / f"wait-{before}"

        def note(value):
            with computed.open("a") as opened:
                opened.write(f"{month}\\n")
            # The test kills the job while it computes what comes after a stored part.
            while wait.exists():
                time.sleep(0.05)
            return value

        return F.udf(note, "long")

    months = job.params.months
    for number, (before, month) in enumerate(zip([None, *months], months), 1):
        frame = spark.range(number, numPartitions=1)
        frame = frame.select(noting(month, before)("id").alias("n"), F.lit(month).alias("month"))
        assert job.write(frame, part=month) == number
"""

EPOCHS, STOPPED_AFTER = 6, 3
TRAINING = f"""
import json
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    model, output, seen = map(Path, sys.argv[1:])
    weights = model / "weights.json"
    done = json.loads(weights.read_text()) if weights.exists() else {{"epochs": 0, "loss": 1.0}}
    while done["epochs"] < {EPOCHS}:
        with (seen / "epochs").open("a") as opened:
            opened.write(f"{{done['epochs']}}\\n")
        done = {{"epochs": done["epochs"] + 1, "loss": done["loss"] / 2}}
        weights.write_text(json.dumps(done))
        while done["epochs"] == {STOPPED_AFTER} and (seen / "wait").exists():
            (seen / "waits").touch()
            time.sleep(0.05)
    output.write_text(weights.read_text())
"""


@dataclass
class Seen:
    """What the job and the test say to one another, in a folder."""

    folder: Path

    def computed(self, month: str) -> int:
        file = self.folder / "computed"
        return file.read_text().splitlines().count(month) if file.exists() else 0

    def is_after(self, month: str) -> bool:
        """Whether the job computes what comes after the month, which is stored by then."""
        return self.computed(MONTHS[MONTHS.index(month) + 1]) > 0


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
        stack.wait_for(lambda month=month: seen.is_after(month), f"{month} is stored")
        row = there(stack.row(job_id))
        assert (row.attempt.number, row.has_saved) == (attempt, True)
        stack.kill(job_id)
        (folder / f"wait-{month}").unlink()
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
    stack.until_quiet()
    left = s3.list_objects_v2(Bucket=stack.bucket, Prefix=PREFIX)
    assert "Contents" not in left


def test_a_table_of_a_job_that_was_killed_three_times(stack: Stack, tmp_path: Path) -> None:
    seen = run(stack, "table", "table://longhaul/parts", tmp_path / "seen")
    computed_once(seen)
    assert stack.table_rows("parts") == sorted(
        (n, month) for number, month in enumerate(MONTHS, 1) for n in range(number)
    )
    stack.until_quiet()


def test_a_training_that_is_asked_to_stop_goes_on_at_its_last_epoch(
    stack: Stack, tmp_path: Path
) -> None:
    """Only the SIGTERM stores its folder: the next regular time is five minutes away."""
    (tmp_path / "wait").touch()
    script = f"s3://{stack.bucket}/jobs/training.py"
    stack.client("s3").put_object(
        Bucket=stack.bucket, Key="jobs/training.py", Body=TRAINING.encode()
    )
    argv = ["{folder.model}", "{output}/model.json", str(tmp_path)]
    output = f"s3://{stack.bucket}/training/"
    stack.send(
        json.dumps(
            {"job": script, "job_id": "training", "output": output, "params": {"argv": argv}}
        )
    )
    stack.wait_for((tmp_path / "waits").exists, f"epoch {STOPPED_AFTER}")
    task = there(stack.until_task("training").attempt.task_arn)
    stack.client("ecs").stop_task(cluster=task.split("/")[1], task=task, reason="maintenance")
    stack.until_task("training", attempt=2)
    (tmp_path / "wait").unlink()  # met again by an attempt that begins at the beginning

    row = stack.until("training", State.SUCCEEDED)
    assert (row.attempt.number, row.failures, row.interruptions, row.resumptions) == (2, 0, 0, 1)
    assert row.attempt.progress["taken_over"] == "1 folder"
    assert (tmp_path / "epochs").read_text().split() == [str(n) for n in range(EPOCHS)]
    assert stack.rows("training") == [{"epochs": EPOCHS, "loss": 2**-EPOCHS}]
