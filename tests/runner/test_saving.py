"""What an attempt stores, and what the next one takes over: with Spark, on moto."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.adapters.publisher import S3Publisher, read_manifest
from longhaul.adapters.saved_work import S3SavedWork
from longhaul.domain import transitions
from longhaul.domain.claim import Claim, next_attempt
from longhaul.domain.lease import Lease, State
from longhaul.domain.saved import PREFIX, decide_saved
from longhaul.domain.settlement import after_verdict
from longhaul.domain.verdict import ExitCode, OutcomeClass, Verdict
from longhaul.job import Job, Params, PermanentJobError
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.loading import LoadedJob
from longhaul.settings import LeaseSettings
from tests.builders import BUCKET, stage
from tests.runner.conftest import Cloud, MakeAttempt

JobCode = Callable[[SparkSession, Job[Any]], None]


class DiesError(Exception):
    """In the place of a kill: nothing of the attempt goes on."""


class Attempts:
    """One attempt after another of one job; each has a disk of its own, which ends with it."""

    def __init__(self, cloud: Cloud, make: MakeAttempt, folder: Path) -> None:
        self._cloud = cloud
        self._make = make
        self._folder = folder
        self.number = 0

    def run(self, job: JobCode, code: str = "1") -> ExitCode:
        self.number += 1
        scratch = self._folder / str(self.number)
        attempt = self._make(
            load=lambda *_: LoadedJob(job, Params(), code),
            id=self._cloud.lease().id,
            scratch=scratch,
            area=DiskArea(self._cloud.s3, scratch, {}),
        )
        exit_code = attempt.run()
        if exit_code is not ExitCode.OK:
            self.settle(exit_code)
        return exit_code

    def settle(self, exit_code: ExitCode) -> None:
        """Release the job, and claim its next attempt."""
        now, timing = datetime.now(UTC), LeaseSettings()
        before = self._cloud.lease()
        result = before.attempt.result
        verdict = Verdict(OutcomeClass(result.kind if result else "interrupted"), "it ended")
        del exit_code
        after = after_verdict(before, verdict, stage(), timing, now, random.Random(1)).lease
        after = self._cloud.leases.apply(transitions.settle(before, after))
        assert after.state is State.RELEASED
        claim = Claim(next_attempt(after, None, timing, now), replaces=after)
        self._cloud.leases.apply(transitions.claim(claim, stage()))


@pytest.fixture
def attempts(cloud: Cloud, make_attempt: MakeAttempt, tmp_path: Path) -> Attempts:
    cloud.claim(inputs={})
    return Attempts(cloud, make_attempt, tmp_path / "attempts")


def computed(spark: SparkSession, name: str, n: int, counter: Path) -> DataFrame:
    """A frame of `n` rows whose computation leaves a line in the file."""
    counter.parent.mkdir(parents=True, exist_ok=True)
    text, file = f"{name}\n", str(counter)

    def noting(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Spark reads hints
        with Path(file).open("a") as opened:
            opened.write(text)
        return value

    frame = spark.range(n, numPartitions=1)
    return frame.select(F.udf(noting, "long")("id").alias("n"), F.lit(name).alias("month"))


def times(counter: Path, name: str) -> int:
    return counter.read_text().splitlines().count(name) if counter.exists() else 0


def test_parts_that_are_stored_are_not_computed_again(
    cloud: Cloud, attempts: Attempts, tmp_path: Path, spark: SparkSession
) -> None:
    counter = tmp_path / "counter"
    months = ("2013-01", "2013-02", "2013-03")

    def job(dies_after: int | None) -> JobCode:
        def run(session: SparkSession, job: Job[Any]) -> None:
            for n, month in enumerate(months, 1):
                rows = job.write(computed(session, month, 2 * n, counter), part=month)
                assert rows == 2 * n
                if n == dies_after:
                    raise DiesError

        return run

    assert attempts.run(job(1)) is ExitCode.FAILED
    assert attempts.run(job(2)) is ExitCode.FAILED
    assert "taken_over" not in cloud.lease().attempt.progress  # of the attempt that was claimed
    assert attempts.run(job(None)) is ExitCode.OK
    assert [times(counter, month) for month in months] == [2, 4, 6]
    output = cloud.lease().attempt.output
    assert output is not None
    place = output.prefix.removeprefix(f"s3://{BUCKET}/")
    manifest, _ = read_manifest(cloud.s3, BUCKET, place)
    assert manifest is not None
    assert manifest.rows == {".": 12}
    assert len(manifest.files) == 3
    for n, file in enumerate(manifest.files):
        body = cloud.s3.get_object(Bucket=BUCKET, Key=place + file.path)["Body"].read()
        (tmp_path / "read").mkdir(exist_ok=True)
        (tmp_path / "read" / f"{n}.parquet").write_bytes(body)
    rows = spark.read.parquet(str(tmp_path / "read")).groupBy("month").count().collect()
    assert {row["month"]: row["count"] for row in rows} == {
        "2013-01": 2,
        "2013-02": 4,
        "2013-03": 6,
    }


def test_a_part_that_is_not_asked_for_again_is_dropped(cloud: Cloud, attempts: Attempts) -> None:
    def first(spark: SparkSession, job: Job[Any]) -> None:
        job.write(spark.range(1), part="a")
        job.write(spark.range(2), part="b")
        raise DiesError

    def second(spark: SparkSession, job: Job[Any]) -> None:
        assert job.write(spark.range(5), part="b") == 2
        job.write(spark.range(3), part="c")

    attempts.run(first)
    assert attempts.run(second) is ExitCode.OK
    output = cloud.lease().attempt.output
    assert output is not None
    manifest, _ = read_manifest(cloud.s3, BUCKET, output.prefix.removeprefix(f"s3://{BUCKET}/"))
    assert manifest is not None
    assert manifest.rows == {".": 5}


def test_a_checkpoint_is_computed_once(attempts: Attempts, tmp_path: Path) -> None:
    counter, seen = tmp_path / "counter", list[int]()

    def run(spark: SparkSession, job: Job[Any]) -> None:
        frame = job.checkpoint("numbers", computed(spark, "all", 4, counter))
        seen.append(frame.agg(F.sum("n")).first()[0])  # type: ignore[index]
        if job.attempt < 3:
            raise DiesError
        job.write(frame)

    attempts.run(run)
    attempts.run(run)
    assert attempts.run(run) is ExitCode.OK
    assert (times(counter, "all"), seen) == (4, [6, 6, 6])


def test_an_empty_frame_is_a_checkpoint(attempts: Attempts) -> None:
    columns = []

    def run(spark: SparkSession, job: Job[Any]) -> None:
        frame = job.checkpoint("none", spark.createDataFrame([], "n long, text string"))
        columns.append((frame.columns, frame.count()))
        if job.attempt < 2:
            raise DiesError
        job.write(frame)

    attempts.run(run)
    assert attempts.run(run) is ExitCode.OK
    assert columns == [(["n", "text"], 0)] * 2


def test_a_folder_and_the_state_outlive_the_attempt(attempts: Attempts) -> None:
    found = []

    def run(spark: SparkSession, job: Job[Any]) -> None:
        folder = job.folder("model")
        files = {
            each.relative_to(folder).as_posix(): each.read_text()
            for each in folder.rglob("*")
            if each.is_file()
        }
        found.append((files, dict(job.state)))
        (folder / "deep").mkdir(exist_ok=True)
        (folder / "deep" / "weights").write_text(f"epoch {job.attempt}")
        (folder / "config").write_text("same")
        job.state["next"] = job.attempt
        job.save()
        (folder / "config").write_text("lost")
        job.state["next"] = -1
        if job.attempt < 3:
            raise DiesError
        job.write(spark.range(1))

    for _ in range(3):
        attempts.run(run)
    assert found == [
        ({}, {}),
        ({"config": "same", "deep/weights": "epoch 1"}, {"next": 1}),
        ({"config": "same", "deep/weights": "epoch 2"}, {"next": 2}),
    ]


def test_other_code_begins_afresh_but_for_what_names_a_version(
    attempts: Attempts, tmp_path: Path
) -> None:
    counter = tmp_path / "counter"

    def run(spark: SparkSession, job: Job[Any]) -> None:
        job.state["seen"] = [*job.state.get("seen", []), job.attempt]  # type: ignore[misc]
        job.checkpoint("by-code", computed(spark, "code", 1, counter))
        job.checkpoint("by-version", computed(spark, "version", 1, counter), version="1")
        if job.attempt < 2:
            raise DiesError
        assert job.state["seen"] == [2]
        job.write(spark.range(1))

    attempts.run(run, code="1")
    assert attempts.run(run, code="2") is ExitCode.OK
    assert (times(counter, "code"), times(counter, "version")) == (2, 1)


def test_a_zombie_stores_nothing_that_counts(cloud: Cloud, attempts: Attempts) -> None:
    def late(spark: SparkSession, job: Job[Any]) -> None:
        job.write(spark.range(1), part="a")
        attempts.settle(ExitCode.INTERRUPTED)  # the lease is lost meanwhile
        job.write(spark.range(2), part="b")
        pytest.fail("a part of a stale attempt was taken for durable")

    assert attempts._make(load=lambda *_: LoadedJob(late, Params(), "1")).run() is (
        ExitCode.SUPERSEDED
    )
    row = cloud.lease()
    record = S3SavedWork(cloud.s3, BUCKET).load(row.saved_ref or "")
    assert record is not None
    assert list(record.parts["."]) == ["a"]


def test_parts_with_other_columns_are_refused(attempts: Attempts) -> None:
    def run(spark: SparkSession, job: Job[Any]) -> None:
        job.write(spark.range(1).select(F.col("id").alias("n")), part="a")
        with pytest.raises(PermanentJobError, match="part 'b' has other columns than part 'a': n"):
            job.write(spark.range(1).select(F.lit("x").alias("n")), part="b")
        raise DiesError

    attempts.run(run)


def test_all_that_was_stored_is_removed(cloud: Cloud, attempts: Attempts) -> None:
    def run(spark: SparkSession, job: Job[Any]) -> None:
        job.write(spark.range(1), part="a")
        job.folder("model").joinpath("x").write_text("x")
        job.save()
        if job.attempt < 2:
            raise DiesError

    attempts.run(run)
    assert cloud.objects(PREFIX)
    assert attempts.run(run) is ExitCode.OK
    row = cloud.lease()
    store = S3SavedWork(cloud.s3, BUCKET)
    assert list(store.jobs()) == [row.key]
    ended: Lease = replace(row, state=State.SUCCEEDED, owed=())
    assert decide_saved(ended, datetime.now(UTC)) == "remove"
    store.remove(ended.id)
    assert cloud.objects(PREFIX) == []
    S3Publisher(cloud.s3, BUCKET).publish(row.attempt.output)  # type: ignore[arg-type]


def test_an_outage_of_s3_makes_a_save_late_and_not_lost(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses = False
    stock = S3SavedWork.put

    def put(self: S3SavedWork, ref: str, record: Any) -> None:
        if refuses:
            raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")
        stock(self, ref, record)

    monkeypatch.setattr(S3SavedWork, "put", put)

    def run(spark: SparkSession, job: Job[Any]) -> None:
        nonlocal refuses
        if job.attempt == 1:
            refuses = True
            assert job.write(spark.range(1), part="a") == 1
            refuses = False
            job.write(spark.range(2), part="b")
            raise DiesError
        assert job.write(spark.range(7), part="a") == 1
        assert job.write(spark.range(7), part="b") == 2

    attempts.run(run)
    assert attempts.run(run) is ExitCode.OK
