"""Modes of publication on S3, and a kill at each write between upload and published output."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.errors import PermanentJobError, VoidCommitError
from longhaul.core.lease import AttemptId
from longhaul.core.places import DataPath
from longhaul.core.settings import Mode
from longhaul.outputs.manifest import MANIFEST
from longhaul.outputs.publisher import S3Publisher, read_manifest
from longhaul.runner.io.destinations import PrefixDestination
from simulation.aws.cloud import FakeAws
from tests.contract.conftest import Aws
from tests.contract.mortal import Killed, Mortal
from tests.contract.test_publisher import (
    BUCKET,
    PREFIX,
    RUN,
    objects,
    pending_uploads,
    publisher,
    sent,
)

OUTPUT = DataPath("s3", BUCKET, PREFIX)
ROWS = {"part-0.csv": b"new", "day=2/part-0.csv": b"new too", "day=2/part-1.csv": b"x"}
OLD = {"part-0.csv": b"old", "day=1/part-0.csv": b"old too"}


@pytest.fixture
def s3(aws: Aws) -> Any:
    client = aws.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


@dataclass
class Writer:
    """Writes the files of a job to disk, and uploads or publishes them."""

    tmp_path: Path

    def upload(
        self,
        s3: Any,
        job: str,
        files: dict[str, bytes],
        mode: Mode,
        attempt: int = 1,
        run: int = RUN,
    ) -> AttemptId:
        id_ = AttemptId(f"main#{job}", run, attempt)
        PrefixDestination(s3, OUTPUT, mode, id_).require_room()
        return sent(s3, self.tmp_path / f"{job}-{run}-{attempt}", id_, files, mode)

    def write(
        self,
        s3: Any,
        job: str,
        files: dict[str, bytes],
        mode: Mode = "overwrite",
        run: int = RUN,
    ) -> AttemptId:
        output = self.upload(s3, job, files, mode, run=run)
        publisher(s3).publish(output)
        return output


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def contents(s3: Any) -> list[bytes]:
    """The contents of the files that the manifest names. Fails when one is missing."""
    manifest, _ = read_manifest(s3, BUCKET, PREFIX)
    files = manifest.files if manifest else ()
    return sorted(
        s3.get_object(Bucket=BUCKET, Key=PREFIX + file.path)["Body"].read() for file in files
    )


def both(*files: dict[str, bytes]) -> list[bytes]:
    return sorted(content for each in files for content in each.values())


def test_append_adds_its_files_and_rows_to_the_existing_output(s3: Any, writer: Writer) -> None:
    writer.write(s3, "first", OLD, "append")
    writer.write(s3, "second", ROWS, "append")
    manifest, _ = read_manifest(s3, BUCKET, PREFIX)
    assert manifest is not None
    assert (contents(s3), manifest.rows) == (both(OLD, ROWS), {".": 5})


def test_append_of_a_later_run_replaces_what_the_earlier_one_of_its_job_had_added(
    s3: Any, writer: Writer
) -> None:
    first = writer.write(s3, "first", OLD, "append")
    writer.write(s3, "second", ROWS, "append")
    new = dict.fromkeys(OLD, b"again")
    again = writer.write(s3, "first", new, "append", run=RUN + 1)
    for output in (first, again):  # by publishers that are late
        publisher(s3).publish(output)

    assert contents(s3) == both(new, ROWS)
    manifest, _ = read_manifest(s3, BUCKET, PREFIX)
    named = {PREFIX + file.path for file in (manifest.files if manifest else ())}
    there = s3.list_objects_v2(Bucket=BUCKET, Prefix=PREFIX)["Contents"]
    left = {each["Key"] for each in there}
    assert left == {*named, PREFIX + MANIFEST}


# Stock moto closes an object's content while another thread reads it.
@pytest.mark.parametrize("aws", ["strict"], indirect=True)
def test_concurrent_appends_are_all_kept(s3: Any, writer: Writer) -> None:
    outputs = [writer.upload(s3, f"job-{n}", {"part-0.csv": b"%d" % n}, "append") for n in range(6)]
    with ThreadPoolExecutor(len(outputs)) as pool:
        list(pool.map(S3Publisher(s3, BUCKET).publish, outputs))
    assert contents(s3) == [b"%d" % n for n in range(6)]


@pytest.mark.parametrize("name", ["b.json", "dump.2024-02-01"])
def test_files_of_a_jobs_own_may_be_appended_to_others_of_any_kind(
    s3: Any, writer: Writer, name: str
) -> None:
    first, second = {"a.wav": b"a", "dump.2024-01-31": b"a"}, {name: b"b"}
    writer.write(s3, "first", first, "append")
    writer.write(s3, "second", second, "append")
    assert contents(s3) == both(first, second)


@pytest.mark.parametrize(("there", "new"), [("part-0.csv", "a.wav"), ("a.wav", "part-0.csv")])
def test_a_dataset_has_no_files_of_spark_beside_others(
    s3: Any, writer: Writer, there: str, new: str
) -> None:
    writer.write(s3, "first", {there: b"x"}, "append")
    with pytest.raises(PermanentJobError, match="cannot be added"):
        writer.upload(s3, "second", {new: b"x"}, "append")


def test_append_in_another_format_is_refused(s3: Any, writer: Writer) -> None:
    writer.write(s3, "first", OLD)
    with pytest.raises(
        PermanentJobError,
        match=r"'\.' holds csv files, to which parquet files cannot be added: write the same",
    ):
        writer.write(s3, "second", {"part-0.zstd.parquet": b"x"}, "append")
    assert pending_uploads(s3) == []


@pytest.mark.parametrize("new", ["part-0.csv", "hour=1/part-0.csv", "day=2/hour=1/part-0.csv"])
def test_append_with_other_partition_columns_is_refused(s3: Any, writer: Writer, new: str) -> None:
    writer.write(s3, "first", {"day=1/part-0.csv": b"x"})
    with pytest.raises(PermanentJobError, match=r"'\.' is parted by day, and .* by"):
        writer.write(s3, "second", {new: b"x"}, "append")
    assert pending_uploads(s3) == []


def test_append_that_would_make_more_files_than_an_output_may_have_is_refused(
    s3: Any, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.runner.io.written.MAX_FILES", len(OLD) + len(ROWS) - 1)
    writer.write(s3, "first", OLD)
    with pytest.raises(PermanentJobError, match=r"output: 5 files are more than .* \(4\)"):
        writer.write(s3, "second", ROWS, "append")
    assert pending_uploads(s3) == []
    writer.write(s3, "third", ROWS)


def test_an_output_whose_list_no_function_could_read_is_refused_before_its_commit(
    s3: Any, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.core.objects.MAX_FOOTPRINT", 3_000)
    with pytest.raises(PermanentJobError, match=r"a list of 3 files .* fewer and larger files"):
        writer.write(s3, "first", ROWS)


def test_success_file_that_is_longer_than_any_manifest_is_not_read(
    s3: Any, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write(s3, "first", OLD)
    manifest, etag = read_manifest(s3, BUCKET, PREFIX)
    assert manifest is not None
    monkeypatch.setattr("longhaul.outputs.publisher.MAX_BYTES", 100)
    assert read_manifest(s3, BUCKET, PREFIX) == (None, etag)


@pytest.mark.parametrize("there", ["part-0.csv", "raw/2013.csv", MANIFEST])
@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_files_of_others_are_neither_replaced_nor_hidden_in_any_mode(
    s3: Any, writer: Writer, there: str, mode: Mode
) -> None:
    s3.put_object(Bucket=BUCKET, Key=PREFIX + there, Body=b"precious")
    with pytest.raises(PermanentJobError, match=f"s3://data/out/flights/ holds {there}[,:] "):
        writer.write(s3, "job", ROWS, mode)
    assert objects(s3) == {there}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("left", ["_temporary/x", ".spark-staging", "sub/"])
def test_hidden_files_and_folders_are_in_nobodys_way(
    s3: Any, writer: Writer, left: str, mode: Mode
) -> None:
    s3.put_object(Bucket=BUCKET, Key=PREFIX + left, Body=b"")
    writer.write(s3, "job", ROWS, mode)
    assert contents(s3) == both(ROWS)


def test_files_of_the_jobs_own_void_commit_are_no_existing_output(s3: Any) -> None:
    left = f"{PREFIX}part-0-{AttemptId('main#job', RUN, 1).token}.csv"
    s3.put_object(Bucket=BUCKET, Key=left, Body=b"")
    PrefixDestination(s3, OUTPUT, "error", AttemptId("main#job", RUN, 2)).require_room()
    with pytest.raises(PermanentJobError):
        PrefixDestination(s3, OUTPUT, "error", AttemptId("main#other", RUN, 1)).require_room()


def test_of_two_outputs_in_mode_error_the_second_is_void_and_its_retry_is_refused(
    s3: Any, writer: Writer
) -> None:
    one, other = writer.upload(s3, "one", OLD, "error"), writer.upload(s3, "other", ROWS, "error")
    publisher(s3).publish(one)
    with pytest.raises(VoidCommitError, match="holds another output"):
        publisher(s3).publish(other)
    publisher(s3).discard(AttemptId("main#other", RUN, 1))
    assert (contents(s3), len(objects(s3)), pending_uploads(s3)) == (both(OLD), len(OLD) + 1, [])
    publisher(s3).publish(one)
    with pytest.raises(PermanentJobError, match="output: mode is error"):
        writer.upload(s3, "other", ROWS, "error", attempt=2)


def test_a_later_run_replaces_in_mode_error_what_its_own_job_wrote(s3: Any, writer: Writer) -> None:
    first = writer.write(s3, "one", OLD, "error")
    again = writer.write(s3, "one", ROWS, "error", run=RUN + 1)
    for output in (first, again):  # by publishers that are late
        publisher(s3).publish(output)
    assert (contents(s3), len(objects(s3))) == (both(ROWS), len(ROWS) + 1)

    writer.write(s3, "other", OLD, "append")
    with pytest.raises(
        PermanentJobError, match=f"{PREFIX} holds {MANIFEST}, of the job 'main#other'"
    ):
        writer.upload(s3, "one", ROWS, "error", run=RUN + 2)


def test_missing_bucket_is_a_permanent_error(s3: Any) -> None:
    with pytest.raises(PermanentJobError, match="there is no bucket nowhere"):
        PrefixDestination(
            s3, DataPath("s3", "nowhere", PREFIX), "error", AttemptId("main#job", RUN, 1)
        ).require_room()


@dataclass
class Attempts:
    """Runs and settles attempts of a job until its output is published."""

    writer: Writer
    mode: Mode
    committed: AttemptId | None = None

    def run(self, s3: Any, attempt: int, *, dies_at_commit: bool = False) -> None:
        if self.committed is None:
            uploaded = self.writer.upload(s3, "job", ROWS, self.mode, attempt)
            if dies_at_commit:
                raise Killed
            self.committed = uploaded
        publisher(s3).publish(self.committed)

    def settle(self, s3: Any, attempt: int) -> None:
        if self.committed is not None:
            publisher(s3).publish(self.committed)
        else:
            publisher(s3).discard(AttemptId("main#job", RUN, attempt))


@pytest.fixture
def strict(fake: FakeAws) -> Any:
    """The strict fake alone: there are many cases, and moto is stricter in none."""
    client = fake.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


# Three uploads created, the list, three parts, the list again, three completions, the manifest.
# An overwrite also deletes the files that it replaces.
WRITES = {"overwrite": 13, "append": 12, "error": 12}


@pytest.mark.parametrize("mode", WRITES)
def test_number_of_writes_of_a_publication_is_the_number_of_kills_tried_below(
    strict: Any, writer: Writer, mode: Mode
) -> None:
    if mode != "error":
        writer.write(strict, "old", OLD)
    life = Mortal()
    Attempts(writer, mode).run(life.client(strict), 1)
    assert life.writes == WRITES[mode]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("mode", "dies_at"), [(mode, n) for mode, last in WRITES.items() for n in range(1, last + 1)]
)
def test_kill_at_any_write_leaves_one_output_whole_and_the_next_attempt_finishes(
    strict: Any, writer: Writer, mode: Mode, dies_at: int, *, after: bool
) -> None:
    there = OLD if mode != "error" else {}
    if there:
        writer.write(strict, "old", there)
    old, new = both(there), both(ROWS) if mode != "append" else both(there, ROWS)
    attempts = Attempts(writer, mode)

    with pytest.raises(Killed):
        attempts.run(Mortal(dies_at, after=after).client(strict), 1)

    assert contents(strict) in (old, new)
    assert attempts.committed is not None or contents(strict) == old
    attempts.settle(strict, 1)
    attempts.run(strict, 2)
    assert contents(strict) == new
    assert len(objects(strict)) == len(new) + 1
    # Uploads created before the first list have no parts. The bucket's lifecycle rule aborts them.
    created_only = dies_at <= len(ROWS) or (dies_at == len(ROWS) + 1 and not after)
    assert pending_uploads(strict) == [] or created_only
