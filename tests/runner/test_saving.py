"""What an attempt stores, and what the next one takes over: with Spark, on moto."""

import os
import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import ClientError
from pyiceberg.types import LongType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.adapters.background import Threads
from longhaul.adapters.clock import SystemClock
from longhaul.adapters.iceberg.catalog import Tables
from longhaul.adapters.lazy_tables import publisher_of
from longhaul.adapters.publisher import S3Publisher, read_manifest
from longhaul.adapters.saved_work import S3SavedWork
from longhaul.domain import transitions
from longhaul.domain.claim import Claim, next_attempt
from longhaul.domain.lease import Lease, State
from longhaul.domain.saved import PREFIX, decide_saved
from longhaul.domain.settlement import after_verdict
from longhaul.domain.tables import TablePath
from longhaul.domain.verdict import ExitCode, OutcomeClass, Verdict
from longhaul.job import Job, Params, PermanentJobError
from longhaul.runner.attempt import AttemptRunner
from longhaul.runner.code_digest import code_digest
from longhaul.runner.io.saved_files import JobFolder, S3Objects
from longhaul.runner.io.staging import OutOfDiskError
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.loading import LoadedJob
from longhaul.runner.script import ScriptParams, run_script
from longhaul.runner.stopping import Stop, StopReason, hear_sigterm, unwind_s
from longhaul.settings import LeaseSettings
from tests.builders import BUCKET, settings, stage
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
        self.parts: dict[str, Any] = {}
        """Parts of the attempts, in the place of the usual ones."""

    def run(self, job: JobCode, code: str = "1", **parts: Any) -> ExitCode:
        return self.run_loaded(LoadedJob(job, Params(), code), **parts)

    def make(self, job: JobCode, **parts: Any) -> AttemptRunner:
        return self._make(load=lambda *_: LoadedJob(job, Params(), "1"), **parts)

    def run_loaded(self, loaded: LoadedJob, **parts: Any) -> ExitCode:
        self.number += 1
        scratch = self._folder / str(self.number)
        attempt = self._make(
            load=lambda *_: loaded,
            id=self._cloud.lease().id,
            scratch=scratch,
            area=DiskArea(self._cloud.s3, scratch, {}),
            **self.parts,
            **parts,
        )
        exit_code = attempt.run()
        if exit_code is not ExitCode.OK:
            self.settle()
        return exit_code

    def settle(self) -> None:
        """Release the job, and claim its next attempt."""
        now, timing = datetime.now(UTC), LeaseSettings()
        before = self._cloud.lease()
        result = before.attempt.result
        verdict = Verdict(OutcomeClass.INTERRUPTED, "it ended")
        if result is not None:
            verdict = Verdict(OutcomeClass(result.kind), result.error)
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
        attempts.settle()  # the lease is lost meanwhile
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


def test_a_part_that_was_stored_with_other_columns_is_refused(
    make_job: Any, spark: SparkSession
) -> None:
    first = make_job({})
    first.write(spark.range(1), part="a", version="1")
    second = make_job({}, after=first)
    with pytest.raises(PermanentJobError, match="'a' was stored with other columns"):
        second.write(spark.range(1).select(F.lit("x").alias("n")), part="a", version="1")
    third = make_job({}, after=first)
    with pytest.raises(PermanentJobError, match=r"'a' was stored .* in another format"):
        third.write(spark.range(1), part="a", version="1", format="csv")
    third = make_job({})
    third.write(spark.range(1), part="a")
    with pytest.raises(PermanentJobError, match="part 'b' has another format"):
        third.write(spark.range(1), part="b", format="csv")


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
    refuses, notes = False, list[str]()
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
            notes.append(vars(job)["saving"].progress.note)
            refuses = False
            job.write(spark.range(2), part="b")
            raise DiesError
        assert job.write(spark.range(7), part="a") == 1
        assert job.write(spark.range(7), part="b") == 2

    attempts.run(run)
    assert attempts.run(run) is ExitCode.OK
    assert notes == ["part a of dataset . is not stored yet: ClientError"]


def test_a_disk_too_small_for_what_is_restored_ends_the_attempt_before_anything_comes(
    cloud: Cloud, attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one gets a larger size; `S3Objects.bring` would fill the disk half-way."""
    brought: list[object] = []

    def run(spark: SparkSession, job: Job[Any]) -> None:
        if job.attempt == 1:
            job.folder("model").joinpath("w").write_text("weights")
            job.checkpoint("frame", spark.range(3))
            raise DiesError
        monkeypatch.setattr(S3Objects, "bring", lambda _, files: brought.append(files))
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 1))  # type: ignore[attr-defined]
        with pytest.raises(OutOfDiskError, match="and 0 MiB of the disk are free"):
            job.checkpoint("frame", spark.range(3))
        job.folder("model")

    assert attempts.run(run) is ExitCode.FAILED
    assert attempts.run(run) is ExitCode.OUT_OF_DISK
    assert cloud.lease().last_class == OutcomeClass.OUT_OF_DISK
    assert brought == []


def test_more_parts_than_a_job_may_have_are_refused(
    make_job: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all datasets together. What an earlier attempt stored and this one leaves goes."""
    monkeypatch.setattr("longhaul.runner.saving.MAX_PARTS", 2)
    first = make_job({})
    first.write(spark.range(1), part="a")
    first.write(spark.range(1), "other", part="a")
    second = make_job({}, after=first)
    second.write(spark.range(1), part="a")
    second.write(spark.range(1), part="b")
    with pytest.raises(PermanentJobError, match="more than 2 parts: let each part hold more"):
        second.write(spark.range(1), part="c")
    third = make_job({}, after=second)
    for part in "ab":
        third.write(spark.range(1), part=part)
    assert third.taken_over == "2 parts"


def test_the_files_of_an_output_are_counted_at_each_part(
    make_job: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of parts that are passed over."""
    monkeypatch.setattr("longhaul.runner.io.written.MAX_FILES", 3)
    first = make_job({})
    frame = spark.range(0, 2, 1, 2)
    first.write(frame, part="a")
    second = make_job({}, after=first)
    for job in (first, second):
        if job is second:
            job.write(frame, part="a")
        with pytest.raises(PermanentJobError, match="4 files are more than an output may have"):
            job.write(frame, part="b")


def test_more_files_than_a_folder_may_have_are_refused(
    make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.runner.io.saved_files.MAX_FOLDER_FILES", 1)
    job = make_job({})
    for name in "ab":
        job.folder("model").joinpath(name).touch()
    with pytest.raises(PermanentJobError, match="more than 1 files: pack them together"):
        job.save()


def test_the_files_of_all_folders_are_counted_together(
    make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.runner.saving.MAX_FOLDER_FILES", 1)
    job = make_job({})
    for name in "ab":
        job.folder(name).joinpath("file").touch()
    with pytest.raises(PermanentJobError, match="folders hold more than 1 files"):
        job.save()


def test_what_a_platform_asks_to_stop_may_save_in_the_time_that_is_left(
    cloud: Cloud, attempts: Attempts
) -> None:
    stop, left, threads = Stop(), list[float](), list[bool]()

    def run(spark: SparkSession, job: Job[Any]) -> None:
        def last_words(seconds: float) -> None:
            left.append(seconds)
            threads.append(job.is_stopping)
            job.state["epoch"] = 7
            job.save()

        if job.attempt == 1:
            job.on_stop(last_words)
            hear_sigterm(stop, Threads())
            while True:
                stop.check()
                time.sleep(0.01)
        assert job.state == {"epoch": 7}
        job.write(spark.range(1))

    assert attempts.run(run, stop=stop) is ExitCode.INTERRUPTED
    assert attempts.run(run) is ExitCode.OK
    assert threads == [True]
    timeout_s = LeaseSettings().stop_timeout_s
    assert 0 < left[0] < timeout_s
    assert cloud.lease().attempt.number == 2


@pytest.mark.parametrize("timeout_s", [1, 5, 20, 120])
def test_half_of_the_stop_timeout_at_least_is_for_what_is_stored_at_the_end(timeout_s: int) -> None:
    assert timeout_s - 2 * unwind_s(timeout_s) >= timeout_s / 2


def test_an_attempt_that_ends_before_its_first_report_says_what_it_took_over(
    cloud: Cloud, attempts: Attempts
) -> None:
    def run(spark: SparkSession, job: Job[Any]) -> None:
        (job.folder("model") / "weights").touch()
        job.save()
        if job.attempt == 1:
            raise ValueError("cut off")
        job.write(spark.range(1))

    rarely = settings(lease=LeaseSettings(progress_period_s=60))
    assert attempts.run(run, settings=rarely) is ExitCode.FAILED
    assert attempts.run(run, settings=rarely) is ExitCode.OK
    assert cloud.lease().attempt.progress["taken_over"] == "1 folder"


@pytest.mark.parametrize("why", ["lost", "cancelled"])
def test_an_attempt_that_may_not_go_on_has_no_last_words(
    cloud: Cloud, attempts: Attempts, why: str
) -> None:
    stop, called = Stop(), list[float]()

    def run(_: SparkSession, job: Job[Any]) -> None:
        job.on_stop(called.append)
        if why == "lost":
            attempts.settle()
        else:
            cloud.leases.request_cancel(cloud.lease().key, "main")
        hear_sigterm(stop, Threads())
        while True:
            stop.check()
            time.sleep(0.01)

    attempt = attempts.make(run, stop=stop, settings=settings())  # it reports every few seconds
    assert attempt.run() is not ExitCode.OK
    expected = StopReason.SUPERSEDED if why == "lost" else StopReason.CANCELLED
    assert (stop.reason, called) == (expected, [])


def test_a_script_has_folders_that_outlive_it(attempts: Attempts, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        "import pathlib, sys\n"
        "cursor = pathlib.Path(sys.argv[1]) / 'cursor'\n"
        "done = int(cursor.read_text()) if cursor.exists() else 0\n"
        "cursor.write_text(str(done + 1))\n"
        "if done < 2: raise ValueError('dies')\n"
        "pathlib.Path(sys.argv[2]).write_text(str(done))\n"
    )
    params = ScriptParams(argv=("{folder.progress}", "{output}/done.txt"))
    loaded = LoadedJob(lambda _, job: run_script(file, job), params, code_digest(file))
    for expected in (ExitCode.FAILED, ExitCode.FAILED, ExitCode.OK):
        assert attempts.run_loaded(loaded) is expected


def test_parts_of_a_table_are_one_output(
    cloud: Cloud, make_attempt: MakeAttempt, tables: Tables, tmp_path: Path
) -> None:
    path = TablePath("lake", "events")
    cloud.claim(inputs={}, output=str(path), mode="append")
    attempts = Attempts(cloud, make_attempt, tmp_path / "attempts")
    publisher = publisher_of(lambda: tables, SystemClock())
    attempts.parts = {
        "tables": lambda: tables,
        "publisher": S3Publisher(cloud.s3, BUCKET, tables=publisher),
    }
    counter = tmp_path / "counter"

    def run(spark: SparkSession, job: Job[Any]) -> None:
        for n, month in enumerate(("2013-01", "2013-02", "2013-03"), 1):
            frame = computed(spark, month, n, counter)
            assert job.write(frame, part=month, partition_by=["month"]) == n
            if job.attempt == n < 3:
                raise DiesError

    assert attempts.run(run) is ExitCode.FAILED
    assert attempts.run(run) is ExitCode.FAILED
    assert attempts.run(run) is ExitCode.OK
    assert [times(counter, month) for month in ("2013-01", "2013-02", "2013-03")] == [1, 2, 3]
    table = tables.load(path)
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    assert sorted((row["month"], row["n"]) for row in rows) == [
        *[("2013-01", 0)],
        *[("2013-02", n) for n in range(2)],
        *[("2013-03", n) for n in range(3)],
    ]
    assert len(table.snapshots()) == 1


def append(tables: Tables, path: TablePath, *numbers: int) -> None:
    """Another writer's rows, in a snapshot of their own."""
    rows = pa.table({"n": pa.array(numbers, pa.int64())})
    table = tables.load(path)
    if table is None:
        table = tables.catalog.create_table(
            f"{path.database}.{path.name}", rows.schema, location=path.location(BUCKET)
        )
    table.append(rows)


@pytest.mark.parametrize("code", ["1", "2"], ids=["same code", "other code"])
def test_a_table_is_read_as_it_was_when_something_was_stored(
    cloud: Cloud, make_attempt: MakeAttempt, tables: Tables, tmp_path: Path, code: str
) -> None:
    path = TablePath("lake", "events")
    append(tables, path, 1, 2)
    cloud.claim(inputs={"events": str(path)})
    attempts = Attempts(cloud, make_attempt, tmp_path / "attempts")
    attempts.parts = {"tables": lambda: tables}
    seen = []

    def run(spark: SparkSession, job: Job[Any]) -> None:
        frame = job.read("events", spark.read.format("parquet"))
        seen.append(sorted(row["n"] for row in frame.collect()))
        job.write(frame, part="all")
        if job.attempt == 1:
            append(tables, path, 3)
            raise DiesError

    assert attempts.run(run) is ExitCode.FAILED
    assert attempts.run(run, code=code) is ExitCode.OK
    # Other code takes nothing over, so it reads the table as it is.
    assert seen == [[1, 2], [1, 2] if code == "1" else [1, 2, 3]]
    output = cloud.lease().attempt.output
    assert output is not None
    manifest, _ = read_manifest(cloud.s3, BUCKET, output.prefix.removeprefix(f"s3://{BUCKET}/"))
    assert manifest is not None
    assert manifest.rows == {".": len(seen[1])}


def test_late_parts_of_two_datasets_are_both_stored(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses, stock = False, S3SavedWork.put

    def put(self: S3SavedWork, ref: str, record: Any) -> None:
        if refuses:
            raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")
        stock(self, ref, record)

    monkeypatch.setattr(S3SavedWork, "put", put)

    def run(spark: SparkSession, job: Job[Any]) -> None:
        nonlocal refuses
        if job.attempt == 1:
            refuses = True
            job.write(spark.range(1), "x", part="a")
            job.write(spark.range(2), "y", part="a")
            refuses = False
            job.save()
            raise DiesError
        assert job.write(spark.range(7), "x", part="a") == 1
        assert job.write(spark.range(7), "y", part="a") == 2

    attempts.run(run)
    assert attempts.run(run) is ExitCode.OK


def test_the_fixture_plays_the_second_attempt(
    make_job: Any, written: Any, spark: SparkSession
) -> None:
    first = make_job({})
    first.write(spark.range(1), part="a")
    first.folder("model").joinpath("x").write_text("epoch 1")
    first.state["next"] = 1
    first.checkpoint("frame", spark.range(3))
    second = make_job({}, after=first)
    assert second.attempt > first.attempt
    assert second.write(spark.range(9), part="a") == 1
    assert second.write(spark.range(2), part="b") == 2
    assert second.folder("model").joinpath("x").read_text() == "epoch 1"
    assert second.state == {"next": 1}
    assert second.checkpoint("frame", spark.range(9)).count() == 3
    assert len(written(second)) == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda job, frame: job.write(frame, part=""), "is not 1 to 200 characters"),
        (lambda job, frame: job.write(frame, part="x" * 201), "is not 1 to 200 characters"),
        (lambda job, frame: job.write(frame, part="a\nb"), "is not 1 to 200 characters"),
        (lambda job, frame: job.write(frame, "../x", part="a"), "no dataset name"),
        (lambda job, frame: job.write(frame, version="2"), "only a part of an output has one"),
        (lambda job, frame: job.checkpoint("a/b", frame), "no checkpoint name"),
        (lambda job, _: job.folder(".."), "no folder name"),
        (
            lambda job, frame: [job.write(frame, part="a"), job.write(frame, part="a")],
            "part 'a' of dataset '.' was written already",
        ),
        (
            lambda job, frame: [job.write(frame), job.write(frame, part="a")],
            "was written already, and not in parts",
        ),
        (
            lambda job, frame: [job.write(frame, part="a"), job.write(frame)],
            "was written already",
        ),
        (
            lambda job, frame: [job.checkpoint("a", frame), job.checkpoint("a", frame)],
            "checkpoint 'a' was used already",
        ),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_computed(
    make_job: Any, spark: SparkSession, call: Callable[[Any, DataFrame], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call(make_job({}), spark.range(1))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"x": object()}, "it takes what JSON has"),
        ({"x": float("nan")}, "it takes what JSON has"),
        ({"x": "y" * 70_000}, "put them into job.folder"),
    ],
)
def test_a_state_that_cannot_be_stored_is_refused(
    make_job: Any, state: dict[str, Any], message: str
) -> None:
    job = make_job({})
    job.state.update(state)
    with pytest.raises(PermanentJobError, match=message):
        job.save()


def test_unchanged_files_are_not_sent_again(tmp_path: Path) -> None:
    sent: list[str] = []

    class Noted:
        def store(self, files: dict[str, Path]) -> None:
            sent.extend(sorted(file.name for file in files.values()))

        def bring(self, files: dict[str, Path]) -> None:
            assert not files

    folder = JobFolder(Noted(), tmp_path / "model")
    folder.restore({})
    for name in "abc":
        (folder.folder / name).write_text(name)
    folder.store("1-1/1/")
    (folder.folder / "b").write_text("B")
    (folder.folder / "c").touch()  # the same content
    (folder.folder / "a").unlink()
    files = folder.store("1-1/2/")
    assert sent == ["a", "b", "c", "b"]
    assert {path: file.object for path, file in files.items()} == {"b": "1-1/2/0", "c": "1-1/1/2"}


class Folder:
    """A job's folder, and what S3 has of it."""

    def __init__(self, folder: Path) -> None:
        self.sent: dict[str, str] = {}
        self.disk = folder
        self.files = JobFolder(self, folder)
        self.files.restore({})
        self.while_sending: Callable[[], object] = lambda: None

    def store(self, files: Mapping[str, Path]) -> None:
        for name, file in files.items():
            self.sent[name] = file.read_text()
        self.while_sending()

    def bring(self, files: Mapping[str, Path]) -> None:
        for name, file in files.items():
            file.write_text(self.sent[name])

    def saved(self, n: int) -> dict[str, str]:
        return {
            path: self.sent[file.object] for path, file in self.files.store(f"1-1/{n}/").items()
        }


def test_a_file_that_changes_while_it_is_sent_is_sent_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "model")
    (folder.disk / "w").write_text("HALF")
    folder.while_sending = lambda: (folder.disk / "w").write_text("HALF-REST")
    folder.saved(1)
    folder.while_sending = lambda: None
    assert folder.saved(2) == {"w": "HALF-REST"}
    assert folder.saved(3) == {"w": "HALF-REST"}


def test_a_write_within_the_clocks_tick_is_seen(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "model")
    file = folder.disk / "w"
    file.write_text("one")
    status = file.stat()
    folder.saved(1)
    file.write_text("two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert folder.saved(2) == {"w": "two"}


@pytest.mark.parametrize(
    ("name", "message"), [("a\tb", "cannot list"), ("/".join(["x" * 200] * 11), "2,000 characters")]
)
def test_a_file_that_a_record_cannot_name_is_refused(
    tmp_path: Path, name: str, message: str
) -> None:
    folder = Folder(tmp_path / "model")
    file = folder.disk / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    with pytest.raises(PermanentJobError, match=message):
        folder.saved(1)


def test_a_save_of_nothing_new_is_no_progress(cloud: Cloud, attempts: Attempts) -> None:
    rows = []

    def run(_: SparkSession, job: Job[Any]) -> None:
        job.folder("model").joinpath("w").write_text("same")
        job.save()
        ref = cloud.lease().saved_ref
        job.save()
        assert cloud.lease().saved_ref == ref
        rows.append(cloud.lease().has_saved)
        raise DiesError

    attempts.run(run)
    attempts.run(run)
    assert rows == [True, False]


@pytest.mark.parametrize(
    "state", [{"k" * 3_000: 1}, {"deep": [[]]}, {"half": "\ud800"}], ids=["key", "deep", "half"]
)
def test_a_state_that_no_attempt_could_read_is_refused(make_job: Any, state: Any) -> None:
    for _ in range(300 if "deep" in state else 0):
        state["deep"] = [state["deep"]]
    job = make_job({})
    job.state.update(state)
    with pytest.raises(PermanentJobError, match="nested too deep"):
        job.save()


def test_a_large_file_that_s3_refuses_makes_a_save_late(
    make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job({})
    job.folder("model").joinpath("w").write_text("x")

    def refuse(_: object, __: object) -> None:
        raise S3UploadFailedError("SlowDown")

    monkeypatch.setattr(type(job.saving.objects), "store", refuse)
    assert job.saving.save() is False
    monkeypatch.undo()
    assert job.saving.save() is True


def test_a_script_whose_folder_cannot_be_stored_fails_by_its_own_error(
    cloud: Cloud, attempts: Attempts, tmp_path: Path
) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        "import os, sys\nos.symlink('x', sys.argv[1] + '/latest')\nraise ValueError('its own')\n"
    )
    params = ScriptParams(argv=("{folder.model}", "{output}"))
    loaded = LoadedJob(lambda _, job: run_script(file, job), params, code_digest(file))
    assert attempts.run_loaded(loaded) is ExitCode.FAILED
    assert "its own" in (cloud.lease().last_error or "")


def test_a_table_is_read_with_the_columns_that_it_had(
    cloud: Cloud, make_attempt: MakeAttempt, tables: Tables, tmp_path: Path
) -> None:
    path = TablePath("lake", "events")
    append(tables, path, 1, 2)
    append(tables, path, 100, 200)
    # The filter leaves out a file, as long as the columns are those that the table has.
    cloud.claim(inputs={"events": f"{path}?n > 50"})
    attempts = Attempts(cloud, make_attempt, tmp_path / "attempts")
    attempts.parts = {"tables": lambda: tables}
    seen, counter = [], tmp_path / "counter"

    def run(spark: SparkSession, job: Job[Any]) -> None:
        frame = job.read("events", spark.read.format("parquet"))
        seen.append((frame.columns, sorted(row["n"] for row in frame.collect())))
        job.checkpoint("c", computed(spark, "c", 1, counter))
        job.write(frame, part="all")
        if job.attempt == 1:
            table = tables.load(path)
            assert table is not None
            with table.update_schema() as change:
                change.add_column("more", LongType())
            raise DiesError

    assert attempts.run(run) is ExitCode.FAILED
    assert attempts.run(run) is ExitCode.OK
    assert seen == [(["n"], [100, 200])] * 2
    assert times(counter, "c") == 1


def test_an_attempt_says_why_it_begins_from_nothing(
    cloud: Cloud, make_attempt: MakeAttempt, tmp_path: Path
) -> None:
    cloud.claim(inputs={}, afresh=True)

    def run(session: SparkSession, job: Job[Any]) -> None:
        job.write(session.range(1), part="one")

    attempts = Attempts(cloud, make_attempt, tmp_path / "attempts")
    assert attempts.run(run) is ExitCode.OK
    said = cloud.lease().attempt.progress["taken_over"]
    assert said == "nothing: the request begins afresh"


def test_what_is_left_beside_what_is_taken_over_is_said(cloud: Cloud, attempts: Attempts) -> None:
    def job(*, dies: bool) -> JobCode:
        def run(session: SparkSession, job: Job[Any]) -> None:
            job.write(session.range(1), part="one", version="1")
            job.write(session.range(1), part="two")
            if dies:
                raise DiesError

        return run

    assert attempts.run(job(dies=True)) is ExitCode.FAILED
    assert attempts.run(job(dies=False), code="2") is ExitCode.OK
    said = cloud.lease().attempt.progress["taken_over"]
    assert said == "1 part; not the rest: the job's code has changed"


def test_a_change_within_the_state_is_stored_in_each_attempt(attempts: Attempts) -> None:
    found = list[Any]()

    def run(session: SparkSession, job: Job[Any]) -> None:
        pages = cast("list[Any]", job.state.setdefault("pages", []))
        found.append([*pages])
        pages.append(job.attempt)
        job.save()
        if job.attempt < 3:
            raise DiesError
        job.write(session.range(1))

    for _ in range(3):
        attempts.run(run)
    assert found == [[], [1], [1, 2]]


def test_a_loop_that_ends_when_it_is_to_stop_may_save(attempts: Attempts) -> None:
    stop = Stop()
    found = list[Any]()

    def run(session: SparkSession, job: Job[Any]) -> None:
        found.append(job.state.get("is_saved"))
        if job.attempt == 1:
            hear_sigterm(stop, Threads())
            while not job.is_stopping:
                time.sleep(0.01)
            time.sleep(0.2)  # the step in which it has heard of it
            job.state["is_saved"] = True
            job.save()
        job.write(session.range(1))

    assert attempts.run(run, stop=stop) is ExitCode.INTERRUPTED
    assert attempts.run(run) is ExitCode.OK
    assert found == [None, True]


def test_what_is_to_be_done_at_the_end_does_not_depend_on_what_was_before(
    attempts: Attempts,
) -> None:
    stop, called = Stop(), list[str]()

    def run(_: SparkSession, job: Job[Any]) -> None:
        def fails(_: float) -> None:
            called.append("fails")
            raise DiesError

        job.on_stop(fails)
        job.on_stop(lambda _: called.append("another"))
        hear_sigterm(stop, Threads())
        while True:
            stop.check()
            time.sleep(0.01)

    assert attempts.run(run, stop=stop) is ExitCode.INTERRUPTED
    assert called == ["fails", "another"]


def test_what_could_not_be_computed_may_be_tried_again(make_job: Any, spark: SparkSession) -> None:
    job = make_job({})
    flaky = spark.range(1).select(F.assert_true(F.col("id") > 0))
    for _ in range(2):
        with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
            job.write(flaky, part="a")
        with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
            job.checkpoint("c", flaky)
    assert job.write(spark.range(1), part="a") == 1
    assert job.checkpoint("c", spark.range(1)).count() == 1


@pytest.mark.parametrize("version", ["", "x" * 201, "\udc00"])
def test_a_version_that_cannot_be_stored_is_refused_before_anything_is_computed(
    make_job: Any, version: str
) -> None:
    job = make_job({})
    for call in (
        lambda: job.write(None, part="a", version=version),
        lambda: job.checkpoint("c", None, version=version),
        lambda: job.folder("f", version=version),
    ):
        with pytest.raises(ValueError, match="version: "):
            call()


class _InMemory:
    """Objects by name, with their content."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}

    def store(self, files: Mapping[str, Path]) -> None:
        self.stored |= {name: file.read_bytes() for name, file in files.items()}

    def bring(self, files: Mapping[str, Path]) -> None:
        for name, file in files.items():
            file.write_bytes(self.stored[name])


def test_a_file_is_stored_as_it_is_whatever_its_times_say(tmp_path: Path) -> None:
    """As who unpacks archives, and who writes through memory, leaves it."""
    objects = _InMemory()
    folder = JobFolder(objects, tmp_path / "model")
    folder.restore({})
    file = folder.folder / "w"
    for number, content in enumerate(("first", "other", "third")):
        file.write_text(content)
        os.utime(file, (1, 1))
        stored = folder.store(f"1-{number}/1/")["w"]
        assert objects.stored[stored.object] == content.encode()


def test_a_file_that_has_not_changed_is_read_for_one_more_save_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = JobFolder(_InMemory(), tmp_path / "model")
    folder.restore({})
    (folder.folder / "w").write_text("content")
    folder.store("1-1/1/")
    monkeypatch.setattr("longhaul.runner.io.saved_files._TICK_NS", -1)  # the tick is over
    folder.store("1-1/2/")
    monkeypatch.setattr("longhaul.runner.io.saved_files._digest", None)
    assert folder.store("1-1/3/")["w"].object == "1-1/1/0"


def test_a_broken_deploy_leaves_what_is_stored(
    cloud: Cloud, attempts: Attempts, tmp_path: Path
) -> None:
    counter, stop = tmp_path / "counter", Stop()

    def run(spark: SparkSession, job: Job[Any]) -> None:
        job.write(computed(spark, "a", 1, counter), part="a", version="1")
        if job.attempt == 1:
            stop.request(StopReason.TERMINATED, "asked to stop")
            stop.check()

    def broken(_session: SparkSession, _job: Job[Any]) -> None:
        raise ImportError("No module named 'numpy'")

    attempts.run(run, stop=stop)
    for _ in range(2):
        attempts.run(broken, code="2")
        assert not cloud.lease().started_afresh
    assert attempts.run(run) is ExitCode.OK
    assert times(counter, "a") == 1


@pytest.mark.parametrize("what", ["state", "folder"])
def test_what_makes_a_job_fail_twice_is_left(cloud: Cloud, attempts: Attempts, what: str) -> None:
    def run(_session: SparkSession, job: Job[Any]) -> None:
        if what == "state":
            job.state["poison"] = True
        else:
            (job.folder("work") / "poison").touch()
        job.save()
        raise DiesError

    for is_left in (False, False, True):
        attempts.run(run)
        assert cloud.lease().started_afresh is is_left


def test_parts_of_a_table_that_is_split_in_another_way_by_now_are_computed_again(
    cloud: Cloud, make_attempt: MakeAttempt, tables: Tables, tmp_path: Path
) -> None:
    path = TablePath("lake", "events")
    cloud.claim(inputs={}, output=str(path), mode="append")
    attempts = Attempts(cloud, make_attempt, tmp_path / "attempts")
    attempts.parts = {
        "tables": lambda: tables,
        "publisher": S3Publisher(
            cloud.s3, BUCKET, tables=publisher_of(lambda: tables, SystemClock())
        ),
    }

    def run(spark: SparkSession, job: Job[Any]) -> None:
        def frame(*months: str) -> DataFrame:
            return spark.createDataFrame([*enumerate(months)], "n long, month string").coalesce(1)

        job.write(frame("a", "b"), part="1")
        if job.attempt == 1:
            columns = pa.schema([pa.field("n", pa.int64()), pa.field("month", pa.string())])
            location = path.location(BUCKET)
            table = tables.catalog.create_table("lake.events", columns, location=location)
            with table.update_spec() as update:
                update.add_identity("month")
            raise DiesError
        job.write(frame("c"), part="2")

    assert attempts.run(run) is ExitCode.FAILED
    assert attempts.run(run) is ExitCode.OK
    assert "taken_over" not in cloud.lease().attempt.progress


def test_what_is_left_is_removed_with_the_next_save(
    cloud: Cloud, attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[int]()

    def run(session: SparkSession, job: Job[Any]) -> None:
        monkeypatch.setattr("pyspark.__version__", f"of attempt {job.attempt + 1}")
        job.checkpoint("c", session.range(1).coalesce(1))
        found.append(len(cloud.objects(PREFIX)))
        if job.attempt < 3:
            raise DiesError
        job.write(session.range(1))

    for _ in range(3):
        attempts.run(run)
    assert found == [found[0]] * 3
