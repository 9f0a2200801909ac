"""What an attempt stores, and what the next one takes over: with Spark, on moto."""

import json
import shutil
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.core.background import Threads
from longhaul.core.clients import SystemClock
from longhaul.core.job_kinds import JobKind
from longhaul.core.lease import AttemptId
from longhaul.core.settings import LeaseSettings
from longhaul.core.verdict import ExitCode, OutcomeClass
from longhaul.job import Job, PermanentJobError
from longhaul.outputs.publisher import S3Publisher
from longhaul.runner.io.saved_files import S3Objects
from longhaul.runner.io.staged import OutOfDiskError
from longhaul.runner.job_file import code_digest
from longhaul.runner.saving import LeaseRecords
from longhaul.runner.script import ScriptParams, run_script
from longhaul.runner.stopping import Stop, StopReason, hear_sigterm, unwind_s
from longhaul.saved.record import PREFIX, Record, record_ref
from longhaul.saved.store import S3SavedWork
from tests.builders import BUCKET, settings, there
from tests.runner.conftest import Cloud
from tests.runner.job_attempts import (
    EACH_KIND,
    SHARED_BY_KINDS,
    Attempts,
    DiesError,
    Either,
    JobCode,
    computed,
    found_job,
    times,
)

if TYPE_CHECKING:
    from longhaul.core.ports import Leases


def work_until(stop: Stop) -> None:
    while True:
        stop.check()
        time.sleep(0.01)


@EACH_KIND
def test_parts_that_are_stored_are_not_computed_again(
    cloud: Cloud, attempts: Attempts, tmp_path: Path
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
    manifest = cloud.manifest()
    assert manifest.rows == {".": 12}
    assert len(manifest.files) == 3


@pytest.mark.parametrize("attempts", [JobKind.PLAIN], indirect=True)
def test_a_part_that_another_thread_writes_during_a_save_is_stored_by_the_next(
    cloud: Cloud, attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, waits = S3SavedWork.put, threading.Event()
    writers = list[threading.Thread]()

    def sleep(_: SystemClock, seconds: float) -> None:
        waits.set()
        time.sleep(seconds)

    def run(frames: SparkSession, job: Job[Any]) -> None:
        def putting(self: S3SavedWork, ref: str, record: Record) -> None:
            if not writers:
                data = frames.range(2)
                writers.append(
                    threading.Thread(target=job.write, args=(data,), kwargs={"part": "b"})
                )
                writers[0].start()
                assert waits.wait(30)
            put(self, ref, record)

        monkeypatch.setattr(S3SavedWork, "put", putting)
        monkeypatch.setattr(SystemClock, "sleep", sleep)
        job.write(frames.range(1), part="a")
        writers[0].join()

    assert attempts.run(run) is ExitCode.OK
    assert cloud.manifest().rows == {".": 3}


@EACH_KIND
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
    assert cloud.manifest().rows == {".": 5}


def test_a_checkpoint_is_computed_once_also_one_without_rows(
    attempts: Attempts, tmp_path: Path
) -> None:
    counter, seen = tmp_path / "counter", list[Any]()

    def run(spark: SparkSession, job: Job[Any]) -> None:
        frame = job.checkpoint("numbers", computed(spark, "all", 4, counter))
        none = job.checkpoint("none", spark.createDataFrame([], "n long, text string"))
        seen.append((frame.agg(F.sum("n")).first()[0], none.columns, none.count()))  # type: ignore[index]
        if job.attempt < 3:
            raise DiesError
        job.write(frame)

    assert attempts.ends(run, 3) == [ExitCode.FAILED, ExitCode.FAILED, ExitCode.OK]
    assert (times(counter, "all"), seen) == (4, [(6, ["n", "text"], 0)] * 3)


@SHARED_BY_KINDS
def test_a_job_knows_of_itself_what_its_row_says(attempts: Attempts, cloud: Cloud) -> None:
    known = []

    def run(spark: SparkSession, job: Job[Any]) -> None:
        row = cloud.lease()
        assert (job.id, job.run, job.attempt) == (row.job_id, row.run, row.attempt.number)
        timeout = timedelta(seconds=row.input.timeout_s)
        assert job.deadline == there(row.attempt.started_at) + timeout
        known.append((job.run, job.key, job.attempt))
        if job.attempt < 2:
            raise DiesError
        job.write(spark.range(1))

    assert attempts.ends(run) == [ExitCode.FAILED, ExitCode.OK]
    (run_id, key, _), second = known
    assert second == (run_id, key, 2)
    assert key.endswith(f"-{run_id}")


@SHARED_BY_KINDS
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

    assert attempts.ends(run, 3) == [ExitCode.FAILED, ExitCode.FAILED, ExitCode.OK]
    assert found == [
        ({}, {}),
        ({"config": "same", "deep/weights": "epoch 1"}, {"next": 1}),
        ({"config": "same", "deep/weights": "epoch 2"}, {"next": 2}),
    ]


@SHARED_BY_KINDS
def test_other_code_begins_afresh_but_for_what_names_a_version(
    attempts: Attempts, tmp_path: Path
) -> None:
    counter = tmp_path / "counter"

    def run(spark: SparkSession, job: Job[Any]) -> None:
        job.state["seen"] = [*job.state.get("seen", []), job.attempt]
        job.checkpoint("by-code", computed(spark, "code", 1, counter))
        job.checkpoint("by-version", computed(spark, "version", 1, counter), version="1")
        if job.attempt < 2:
            raise DiesError
        assert job.state["seen"] == [2]
        job.write(spark.range(1))

    attempts.run(run, code="1")
    assert attempts.run(run, code="2") is ExitCode.OK
    assert (times(counter, "code"), times(counter, "version")) == (2, 1)


@EACH_KIND
def test_a_zombie_stores_nothing_that_counts(cloud: Cloud, attempts: Attempts) -> None:
    def late(spark: SparkSession, job: Job[Any]) -> None:
        job.write(spark.range(1), part="a")
        attempts.settle()  # the lease is lost meanwhile
        job.write(spark.range(2), part="b")
        pytest.fail("a part of a stale attempt was taken for durable")

    assert attempts.make(late).run() is ExitCode.SUPERSEDED
    row = cloud.lease()
    record = there(S3SavedWork(cloud.s3, BUCKET).load(row.saved_ref or ""))
    assert list(record.parts["."]) == ["a"]


def test_a_part_that_was_stored_with_other_columns_is_refused(
    either: Either,
) -> None:
    first = either.make({})
    first.write(either.frames.range(1), part="a", version="1")
    second = either.make({}, after=first)
    with pytest.raises(PermanentJobError, match="'a' was stored with other columns"):
        second.write(either.texts(), part="a", version="1")
    third = either.make({}, after=first)
    with pytest.raises(PermanentJobError, match=r"'a' was stored .* in another format"):
        third.write(either.frames.range(1), part="a", version="1", format="csv")
    third = either.make({})
    third.write(either.frames.range(1), part="a")
    with pytest.raises(PermanentJobError, match="part 'b' has another format"):
        third.write(either.frames.range(1), part="b", format="csv")
    with pytest.raises(PermanentJobError, match="part 'b' has other columns than part 'a': id is"):
        third.write(either.texts(), part="b")


@SHARED_BY_KINDS
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
    store.remove(row.id)
    assert cloud.objects(PREFIX) == []
    S3Publisher(cloud.s3, BUCKET).publish(row.id)


@SHARED_BY_KINDS
def test_an_outage_of_s3_makes_a_save_late_and_not_lost(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = list[str]()
    refusal = ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")

    def run(spark: SparkSession, job: Job[Any]) -> None:
        if job.attempt == 1:
            with monkeypatch.context() as outage:
                outage.setattr(S3SavedWork, "put", Mock(side_effect=refusal))
                assert job.write(spark.range(1), part="a") == 1
                notes.append(vars(job)["saving"].progress.note)
                job.write(spark.range(2), "other", part="a")
            job.save()
            raise DiesError
        assert job.write(spark.range(7), part="a") == 1
        assert job.write(spark.range(7), "other", part="a") == 2

    assert attempts.ends(run) == [ExitCode.FAILED, ExitCode.OK]
    assert notes == ["part a of dataset . is not stored yet: ClientError"]


def test_a_record_that_no_attempt_could_read_is_refused(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, record = S3SavedWork(cloud.s3, BUCKET), Record(fingerprint="f", spark="3", code="c")
    store.put("first", record)
    assert store.load("first") == record
    monkeypatch.setattr("longhaul.core.objects.MAX_FOOTPRINT", 100)
    assert store.load("first") is None
    with pytest.raises(PermanentJobError, match="too many files"):
        store.put("second", record)
    assert cloud.objects("second") == []


@EACH_KIND
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
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 1))
        with pytest.raises(OutOfDiskError, match="and 0 MiB of the disk are free"):
            job.checkpoint("frame", spark.range(3))
        job.folder("model")

    assert attempts.ends(run) == [ExitCode.FAILED, ExitCode.OUT_OF_DISK]
    assert cloud.lease().last_class == OutcomeClass.OUT_OF_DISK
    assert brought == []


def test_more_parts_than_a_job_may_have_are_refused(
    either: Either, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all datasets together. What an earlier attempt stored and this one leaves goes."""
    monkeypatch.setattr("longhaul.runner.saving.MAX_PARTS", 2)
    first = either.make({})
    first.write(either.frames.range(1), part="a")
    first.write(either.frames.range(1), "other", part="a")
    second = either.make({}, after=first)
    second.write(either.frames.range(1), part="a")
    second.write(either.frames.range(1), part="b")
    with pytest.raises(PermanentJobError, match="more than 2 parts: let each part hold more"):
        second.write(either.frames.range(1), part="c")
    third = either.make({}, after=second)
    for part in "ab":
        third.write(either.frames.range(1), part=part)
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


@EACH_KIND
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
            work_until(stop)
        assert job.state == {"epoch": 7}
        job.write(spark.range(1))

    # What asks whether it stops is waited for until then: `run` does not end by itself.
    timeout_s = 6
    soon = settings(lease=LeaseSettings(stop_timeout_s=timeout_s))
    assert attempts.run(run, stop=stop, settings=soon) is ExitCode.INTERRUPTED
    assert attempts.run(run) is ExitCode.OK
    assert threads == [True]
    assert 0 < left[0] < timeout_s
    assert cloud.lease().attempt.number == 2


@pytest.mark.parametrize("timeout_s", [1, 5, 20, 120])
def test_half_of_the_stop_timeout_at_least_is_for_what_is_stored_at_the_end(timeout_s: int) -> None:
    assert timeout_s - 2 * unwind_s(timeout_s) >= timeout_s / 2


@SHARED_BY_KINDS
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
    assert attempts.ends(run, settings=rarely) == [ExitCode.FAILED, ExitCode.OK]
    assert cloud.lease().attempt.progress["taken_over"] == "1 folder"


@SHARED_BY_KINDS
@pytest.mark.parametrize(
    ("reason", "code", "kind"),
    [
        (StopReason.SUPERSEDED, ExitCode.SUPERSEDED, ""),
        (StopReason.CANCELLED, ExitCode.INTERRUPTED, "cancelled"),
    ],
)
def test_an_attempt_that_may_not_go_on_ends_within_a_period_and_has_no_last_words(
    cloud: Cloud, attempts: Attempts, reason: StopReason, code: ExitCode, kind: str
) -> None:
    stop, called = Stop(), list[float]()

    def run(_: SparkSession, job: Job[Any]) -> None:
        job.on_stop(called.append)
        if reason is StopReason.SUPERSEDED:
            attempts.settle()
        else:
            cloud.leases.request_cancel(cloud.lease().key, "main")
        hear_sigterm(stop, Threads())
        work_until(stop)

    attempt = attempts.make(run, stop=stop, settings=settings())  # it reports every few seconds
    assert attempt.run() is code
    assert (stop.reason, called) == (reason, [])
    result = cloud.lease().attempt.result
    assert (result.kind if result else "") == kind


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
    found = found_job(lambda _, job: run_script(file, job), params, code_digest(file))
    for expected in (ExitCode.FAILED, ExitCode.FAILED, ExitCode.OK):
        assert attempts.run_found(found) is expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda job, _: job.write(None, part=2013), r"part: 2013 is no text: name it .* as '2013'"),
        (lambda job, _: job.write(None, part="a", version=2), "version: 2 is no text"),
        *(
            (
                lambda job, _, text=text: job.write(None, part="a", version=text),
                "version: ",
            )
            for text in ("", "x" * 201, "\udc00")
        ),
        (lambda job, _: job.checkpoint("c", None, version=""), "version: "),
        (lambda job, _: job.folder("f", version=""), "version: "),
        (
            lambda job, _: [job.folder("model", version=version) for version in "112"],
            "folder 'model' was opened with another version",
        ),
        (lambda job, _: job.checkpoint(2013, None), "checkpoint: 2013 is no text"),
        (lambda job, _: job.folder(2013), "folder: 2013 is no text"),
        (lambda job, _: job.write(None, 2013), "dataset: 2013 is no text"),
        (lambda job, _: job.files(2013), "dataset: 2013 is no text"),
        (lambda job, _: job.metric(2013, 1), "metric: 2013 is no text"),
        (lambda job, frame: job.write(frame, part=""), "is not 1 to 200 characters"),
        (lambda job, frame: job.write(frame, part="x" * 201), "is not 1 to 200 characters"),
        (lambda job, frame: job.write(frame, part="a\nb"), "is not 1 to 200 characters"),
        (lambda job, frame: job.write(frame, "../x", part="a"), "no dataset name"),
        (
            lambda job, frame: job.write(frame, partition_by="id"),
            r"partition_by: 'id' is a text: name the columns in a list, as \['id'\]",
        ),
        (lambda job, frame: job.write(frame, version="2"), "only a part of an output has one"),
        (lambda job, frame: job.checkpoint("a/b", frame), "no checkpoint name"),
        (lambda job, _: job.folder(".."), "no folder name"),
        (
            lambda job, frame: [job.write(frame, part="a"), job.write(frame, part="a")],
            "part 'a' of the main dataset was written already: write all its rows in one call",
        ),
        (
            lambda job, frame: [job.write(frame), job.write(frame, part="a")],
            "the main dataset was written already, and not in parts: write all of it in parts",
        ),
        (
            lambda job, frame: [job.write(frame, part="a"), job.write(frame)],
            "the main dataset was written already, in parts: write all of it in parts",
        ),
        (
            lambda job, frame: [job.write(frame, "x"), job.write(frame, "x")],
            "dataset 'x' was written already: write all its rows in one call, or in parts",
        ),
        (
            lambda job, _: [job.files("x"), job.files("x")],
            "dataset 'x' was written already: use the folder that the first call returned",
        ),
        (
            lambda job, frame: [job.checkpoint("a", frame), job.checkpoint("a", frame)],
            "checkpoint 'a' was used already",
        ),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_computed(
    either: Either, call: Callable[[Any, Any], object], message: str
) -> None:
    with pytest.raises(PermanentJobError, match=message):
        call(either.make({}), either.frames.range(1))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"x": object()}, "it takes what JSON has"),
        ({"x": float("nan")}, "it takes what JSON has"),
        ({"x": "y" * 70_000}, "put them into job.folder"),
        ({2013: 1}, "whose keys are texts"),
        ({"x": [{"y": {True: 1}}]}, "whose keys are texts"),
        ({"x": (1, 2)}, "it takes what JSON has"),
        ({"k" * 3_000: 1}, "it takes what JSON has"),
        ({"half": "\ud800"}, "it takes what JSON has"),
        (
            {"deep": reduce(lambda inner, _: [inner], range(300), list[object]())},
            "it takes what JSON has",
        ),
        (
            {"abyss": reduce(lambda inner, _: [inner], range(50_000), list[object]())},
            "it takes what JSON has",
        ),
    ],
)
def test_a_state_that_cannot_be_stored_is_refused(
    make_job: Any, state: dict[str, Any], message: str
) -> None:
    job = make_job({})
    job.state.update(state)
    with pytest.raises(PermanentJobError, match=message):
        job.save()


def test_a_state_may_change_while_it_is_stored(
    make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job({})
    job.state.update(n=0, text="x")
    written = json.dumps

    def changing(*given: Any, **how: Any) -> str:
        job.state["n"] += 1
        return written(*given, **how)

    monkeypatch.setattr("longhaul.runner.saving.json.dumps", changing)
    job.save()
    assert job.saving.records.load().state["text"] == "x"


@SHARED_BY_KINDS
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

    assert attempts.ends(run) == [ExitCode.FAILED, ExitCode.FAILED]
    assert rows == [True, False]


def test_a_script_whose_folder_cannot_be_stored_fails_by_its_own_error(
    cloud: Cloud, attempts: Attempts, tmp_path: Path
) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        "import os, sys\nos.symlink('x', sys.argv[1] + '/latest')\nraise ValueError('its own')\n"
    )
    params = ScriptParams(argv=("{folder.model}", "{output}"))
    found = found_job(lambda _, job: run_script(file, job), params, code_digest(file))
    assert attempts.run_found(found) is ExitCode.FAILED
    assert "its own" in (cloud.lease().last_error or "")


def test_an_attempt_says_why_it_begins_from_nothing(cloud: Cloud, attempts: Attempts) -> None:
    cloud.claim(inputs={}, afresh=True)

    def run(session: SparkSession, job: Job[Any]) -> None:
        job.write(session.range(1), part="one")

    assert attempts.run(run) is ExitCode.OK
    said = cloud.lease().attempt.progress["taken_over"]
    assert said == "nothing: the request begins afresh"


@SHARED_BY_KINDS
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


@SHARED_BY_KINDS
def test_a_loop_that_ends_when_it_is_to_stop_may_save(attempts: Attempts) -> None:
    stop = Stop()
    found = list[Any]()

    def run(session: SparkSession, job: Job[Any]) -> None:
        found.append(job.state.get("is_saved"))
        if job.attempt == 1:
            assert not job.is_stopping  # a job that has not asked yet is not waited for
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


@SHARED_BY_KINDS
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
        work_until(stop)

    assert attempts.run(run, stop=stop) is ExitCode.INTERRUPTED
    assert called == ["fails", "another"]


def test_what_could_not_be_computed_may_be_tried_again(make_job: Any, spark: SparkSession) -> None:
    job = make_job({})
    flaky = spark.range(1).select(F.assert_true(F.col("id") > 0))
    for _ in range(2):
        with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
            job.write(flaky, part="a")
        with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
            job.write(flaky, "whole")
        with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
            job.checkpoint("c", flaky)
    assert job.write(spark.range(1), part="a") == 1
    assert job.write(spark.range(1), "whole") == 1
    assert job.checkpoint("c", spark.range(1)).count() == 1


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (0.0, -0.0), ([1], [True])])
def test_a_change_of_type_alone_is_stored(make_job: Any, before: Any, after: Any) -> None:
    first = make_job({})
    for value in (before, after):
        first.state["v"] = value
        first.save()
    assert repr(make_job({}, after=first).state) == repr({"v": after})


def test_a_change_within_the_state_is_stored_in_each_attempt(make_job: Any) -> None:
    job = None
    for number in range(3):
        job = make_job({}, after=job)
        job.state.setdefault("pages", []).append(number)
        job.save()
    last = make_job({}, after=job)
    assert (last.state, last.taken_over) == ({"pages": [0, 1, 2]}, "the state")


def test_a_metric_goes_on_after_a_take_over(make_job: Any, metrics: Any) -> None:
    first = make_job({})
    first.metric("bad_rows", 12)
    first.metric("share", 0.5)
    first.save()
    second = make_job({}, after=first)
    second.metric("share", 0.25)
    assert repr(metrics(second)) == repr({"bad_rows": 12, "share": 0.25})


@SHARED_BY_KINDS
def test_folder_and_state_come_back_together_or_not_at_all(attempts: Attempts) -> None:
    found = list[Any]()

    def train(session: SparkSession, job: Job[Any]) -> None:
        weights = job.folder("model") / "weights"
        found.append((weights.exists(), job.state.get("epochs")))
        weights.write_text("of one epoch")
        job.state["epochs"] = 1
        job.save()
        if len(found) == 1:
            raise DiesError
        job.write(session.range(1))

    def other(session: SparkSession, job: Job[Any]) -> None:
        job.checkpoint("c", session.range(1))
        raise DiesError

    attempts.run(train, code="A")
    attempts.run(other, code="B")
    assert attempts.run(train, code="A") is ExitCode.OK
    assert found == [(False, None)] * 2


def test_a_state_beside_a_folder_that_outlives_its_code_is_refused(make_job: Any) -> None:
    job = make_job({})
    job.folder("model", version="1")
    job.save()
    job.state["epochs"] = 1
    with pytest.raises(PermanentJobError, match=r"folder 'model' names a version, and job\.state"):
        job.save()


@SHARED_BY_KINDS
def test_a_broken_deploy_leaves_what_is_stored(attempts: Attempts, tmp_path: Path) -> None:
    counter, stop = tmp_path / "counter", Stop()

    def run(spark: SparkSession, job: Job[Any]) -> None:
        job.write(computed(spark, "a", 1, counter), part="a", version="1")
        if job.attempt == 1:
            stop.request(StopReason.TERMINATED, "asked to stop")
            stop.check()

    def broken(_session: SparkSession, _job: Job[Any]) -> None:
        raise AttributeError("module 'numpy' has no attribute 'sum'")

    attempts.run(run, stop=stop)
    for _ in range(2):
        attempts.run(broken, code="2")
    assert attempts.run(run) is ExitCode.OK
    assert times(counter, "a") == 1


def test_the_first_save_of_a_run_deletes_nothing_that_another_run_has_stored(
    cloud: Cloud,
) -> None:
    store, record = S3SavedWork(cloud.s3, BUCKET), Record(fingerprint="f", spark="4", code="c")
    key = cloud.claim(inputs={}).key
    before = record_ref(AttemptId(key, 1, 1), 1)
    store.put(before, record)
    leases = cast("Leases", SimpleNamespace(report=lambda _: None))
    LeaseRecords(leases, store, AttemptId(key, 2, 2), None, SystemClock()).put(record)
    assert store.load(before) == record


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

    assert attempts.ends(run, 3) == [ExitCode.FAILED, ExitCode.FAILED, ExitCode.OK]
    assert found == [found[0]] * 3
