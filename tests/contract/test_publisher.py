"""`pending.Publisher` on S3: committed output becomes visible whole or not at all."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.core.errors import TimeUpError, UploadsGoneError
from longhaul.core.lease import AttemptId
from longhaul.core.settings import Mode
from longhaul.outputs.manifest import MANIFEST, PendingOutput, Upload
from longhaul.outputs.pending import pending_ref
from longhaul.outputs.publisher import S3Publisher, read_manifest
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.written import Dataset
from longhaul.runner.stopping import Stop
from simulation.aws.clock import VirtualClock
from simulation.aws.cloud import FakeAws
from simulation.aws.s3.uploads import Completion, Meanwhile
from tests.contract.conftest import Aws
from tests.patience import DEADLINE_S
from tests.plans import plan_of

BUCKET, PREFIX = "data", "out/flights/"
KEY = "main#daily"
RUN = 1767323045000


class Refusing:
    """Refuses to complete an aborted upload, as S3 does. Moto breaks off with a KeyError."""

    def __init__(self, s3: Any) -> None:
        self._s3 = s3

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s3, name)

    def complete_multipart_upload(self, **arguments: Any) -> Any:
        try:
            return self._s3.complete_multipart_upload(**arguments)
        except KeyError as error:
            refused: Any = {"Error": {"Code": "NoSuchUpload"}}
            raise ClientError(refused, "CompleteMultipartUpload") from error


@pytest.fixture
def s3(aws: Aws) -> Any:
    client = Refusing(aws.client("s3"))
    client.create_bucket(Bucket=BUCKET)
    return client


def sent(
    s3: Any, folder: Path, id_: AttemptId, files: dict[str, bytes], mode: Mode = "overwrite"
) -> AttemptId:
    """Write these files, and upload them as the output of the attempt."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    uploader = Uploader(s3, BUCKET, Moving(Stop()))
    written = [Dataset(".", folder, len(files))]
    uploader.send(plan_of(s3, id_, f"s3://{BUCKET}/{PREFIX}", written, mode))
    return id_


@pytest.fixture
def upload(s3: Any, tmp_path: Path) -> Callable[..., AttemptId]:
    def upload_(
        attempt: int, files: dict[str, bytes], *, run: int = RUN, key: str = KEY
    ) -> AttemptId:
        return sent(s3, tmp_path / f"{run}-{attempt}", AttemptId(key, run, attempt), files)

    return upload_


def publisher(s3: Any) -> S3Publisher:
    return S3Publisher(s3, BUCKET, VirtualClock())


def objects(s3: Any) -> set[str]:
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix=PREFIX).get("Contents", [])
    return {item["Key"].removeprefix(PREFIX) for item in listed}


def as_read(s3: Any) -> dict[str, bytes] | None:
    """The files that the manifest names. Fails when one is missing."""
    manifest, _ = read_manifest(s3, BUCKET, PREFIX)
    if manifest is None:
        return None
    return {
        file.path.replace(f"-{manifest.token}", ""): s3.get_object(
            Bucket=BUCKET, Key=PREFIX + file.path
        )["Body"].read()
        for file in manifest.files
    }


def pending_uploads(s3: Any) -> list[str]:
    return [upload["Key"] for upload in s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])]


OLD = {"part-0.csv": b"old", "day=1/part-0.csv": b"old too"}
NEW = {"part-0.csv": b"new", "day=2/part-0.csv": b"new too", "day=2/part-1.csv": b""}


def test_output_is_visible_as_it_was_written_once_it_is_published(
    s3: Any, upload: Callable[..., AttemptId]
) -> None:
    output = upload(1, NEW)
    assert (objects(s3), len(pending_uploads(s3))) == (set(), 3)

    publisher(s3).publish(output)

    assert as_read(s3) == NEW
    assert pending_uploads(s3) == []
    manifest = json.loads(s3.get_object(Bucket=BUCKET, Key=PREFIX + MANIFEST)["Body"].read())
    assert (manifest["key"], manifest["run"], manifest["attempt"], manifest["rows"]) == (
        KEY,
        RUN,
        1,
        {".": 3},
    )
    assert {file["size"] for file in manifest["files"]} == {3, 7, 0}
    assert all(AttemptId(KEY, RUN, 1).token in name for name in objects(s3) - {MANIFEST})


def test_new_output_replaces_the_old_files_and_leaves_others(
    s3: Any, upload: Callable[..., AttemptId]
) -> None:
    publisher(s3).publish(upload(1, OLD))
    s3.put_object(Bucket=BUCKET, Key=PREFIX + "notes.txt", Body=b"not ours")

    publisher(s3).publish(upload(2, NEW))

    assert as_read(s3) == NEW
    assert len(objects(s3)) == len(NEW) + len({MANIFEST, "notes.txt"})


def test_output_with_an_upload_gone_is_not_published_and_nothing_is_deleted(
    s3: Any, upload: Callable[..., AttemptId]
) -> None:
    publisher(s3).publish(upload(1, OLD))
    output = upload(2, NEW)
    (one, *_) = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    s3.abort_multipart_upload(Bucket=BUCKET, Key=one["Key"], UploadId=one["UploadId"])

    with pytest.raises(UploadsGoneError, match="1 of 3 files"):
        publisher(s3).publish(output)

    assert as_read(s3) == OLD
    assert len(objects(s3)) == len(OLD) + 1 + len(NEW) - 1


def test_discard_removes_what_was_completed_of_a_void_commit(
    s3: Any, upload: Callable[..., AttemptId]
) -> None:
    publisher(s3).publish(upload(1, OLD))
    before = objects(s3)
    output = upload(2, NEW)
    one, other, _ = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    s3.abort_multipart_upload(Bucket=BUCKET, Key=one["Key"], UploadId=one["UploadId"])
    with pytest.raises(UploadsGoneError):
        publisher(s3).publish(output)

    publisher(s3).discard(AttemptId(KEY, RUN, 2))

    assert (objects(s3), as_read(s3)) == (before, OLD)
    assert pending_uploads(s3) == []
    assert other["Key"] != one["Key"]


def test_discard_never_deletes_what_is_published(s3: Any, upload: Callable[..., AttemptId]) -> None:
    publisher(s3).publish(upload(1, NEW))

    publisher(s3).discard(AttemptId(KEY, RUN, 1))

    assert as_read(s3) == NEW


def test_file_of_another_size_is_not_published(s3: Any, upload: Callable[..., AttemptId]) -> None:
    output = upload(1, {"part-0.csv": b"whole"})
    (pending,) = pending_uploads(s3)
    publisher(s3).publish(output)
    s3.delete_object(Bucket=BUCKET, Key=PREFIX + MANIFEST)
    s3.put_object(Bucket=BUCKET, Key=pending, Body=b"cut")

    with pytest.raises(UploadsGoneError):
        publisher(s3).publish(output, looks_only=True)

    assert as_read(s3) is None


class Died(BaseException):
    """The publisher's process is gone."""


def begin_to_publish(fake: FakeAws, output: AttemptId, how: Completion) -> None:
    """Publish until S3 works on the first completion, and die."""

    def die(_seconds: float) -> None:
        raise Died

    fake.s3.completion = lambda _key: how
    fake.s3.sleep = die
    with pytest.raises(Died):
        publisher(fake.s3).publish(output)
    fake.s3.sleep = fake.clock.advance


@pytest.mark.parametrize("meanwhile", ["gone", "repeats"])
def test_upload_that_s3_is_still_completing_looks_gone_and_is_published_later(
    fake: FakeAws, tmp_path: Path, meanwhile: Meanwhile
) -> None:
    fake.s3.create_bucket(Bucket=BUCKET)
    id_ = sent(fake.s3, tmp_path, AttemptId(KEY, RUN, 1), {"part-0.csv": b"slow"})
    begin_to_publish(fake, id_, Completion(300, meanwhile))

    with pytest.raises(UploadsGoneError):
        publisher(fake.s3).publish(id_)
    assert as_read(fake.s3) is None
    fake.clock.advance(300)
    publisher(fake.s3).publish(id_, looks_only=True)

    assert as_read(fake.s3) == {"part-0.csv": b"slow"}


def test_look_completes_nothing(s3: Any, upload: Callable[..., AttemptId]) -> None:
    output = upload(1, NEW)

    with pytest.raises(UploadsGoneError):
        publisher(s3).publish(output, looks_only=True)

    assert len(pending_uploads(s3)) == len(NEW)


def test_publication_stops_in_time_and_the_next_one_goes_on(
    s3: Any, upload: Callable[..., AttemptId]
) -> None:
    answered, ended = threading.Event(), threading.Event()

    class Slow:
        """S3 that answers one of the completions late."""

        is_asked = False

        def __getattr__(self, name: str) -> Any:
            return getattr(s3, name)

        def complete_multipart_upload(self, **arguments: Any) -> Any:
            if "part-1" not in arguments["Key"]:
                return s3.complete_multipart_upload(**arguments)
            self.is_asked = True
            answered.wait(60)
            try:
                return s3.complete_multipart_upload(**arguments)
            finally:
                ended.set()

    output, clock = upload(1, NEW), VirtualClock()
    slow: Any = Slow()

    with pytest.raises(TimeUpError):
        S3Publisher(slow, BUCKET, clock).publish(output, clock.now() + timedelta(seconds=0.5))

    assert as_read(s3) is None
    answered.set()
    # Moto is not made for two completions of one upload at once.
    assert not slow.is_asked or ended.wait(60)
    publisher(s3).publish(output)
    assert as_read(s3) == NEW


def test_discard_of_an_attempt_without_uploads_is_no_error(s3: Any) -> None:
    publisher(s3).discard(AttemptId(KEY, RUN, 7))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("../precious.csv", id="outside the prefix"),
        pytest.param("raw.csv", id="without a token"),
        pytest.param(f"{AttemptId(KEY, RUN, 7).token}/raw.csv", id="a token in the folder's name"),
    ],
)
def test_forged_manifest_deletes_no_file_of_others(
    s3: Any, upload: Callable[..., AttemptId], path: str
) -> None:
    theirs = {"Bucket": BUCKET, "Key": os.path.normpath(PREFIX + path)}
    s3.put_object(**theirs, Body=b"precious")
    hostile = {"key": KEY, "run": 0, "attempt": 0, "files": [{"path": path, "size": 8}]}
    s3.put_object(Bucket=BUCKET, Key=PREFIX + MANIFEST, Body=json.dumps(hostile).encode())

    publisher(s3).publish(upload(1, NEW))

    assert s3.get_object(**theirs)["Body"].read() == b"precious"
    assert as_read(s3) == NEW


def write_as_newer(s3: Any, key: str, *lists: str) -> None:
    """Add a field to the document, and to each entry of its lists."""
    document = json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    for each in (document, *(entry for name in lists for entry in document[name])):
        each["colour"] = "green"
    s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(document).encode())


def test_what_a_newer_version_wrote_is_published_read_and_aborted(
    s3: Any, upload: Callable[..., AttemptId]
) -> None:
    """It was rolled back: its lists and manifests have fields of its own."""
    published, killed = upload(1, NEW), upload(2, OLD)
    for attempt in (published, killed):
        write_as_newer(s3, pending_ref(attempt), "uploads")

    publisher(s3).publish(published)
    publisher(s3).discard(killed)

    write_as_newer(s3, PREFIX + MANIFEST, "files")
    assert (as_read(s3), pending_uploads(s3)) == (NEW, [])


def test_lists_name_the_attempts_with_pending_uploads_until_struck_off(
    s3: Any, upload: Callable[..., AttemptId]
) -> None:
    keys = ["main#a/b", "main#a.b", "clean_up#A_b"]
    for key in keys:
        upload(1, OLD, key=key)
    upload(2, NEW, key=keys[0])

    found = list(publisher(s3).listed())

    assert sorted(found) == sorted(
        [*(AttemptId(key, RUN, 1) for key in keys), AttemptId(keys[0], RUN, 2)]
    )
    publisher(s3).strike_off([found[0], found[2]])
    assert list(publisher(s3).listed()) == [found[1], found[3]]
    publisher(s3).strike_off([])
    publisher(s3).strike_off(found)
    assert list(publisher(s3).listed()) == []
    assert len(pending_uploads(s3)) == 3 * len(OLD) + len(NEW)  # only the lists are gone


@pytest.mark.parametrize(
    ("prefix", "path", "token"),
    [
        (f"s3://{BUCKET}/longhaul/", "requests/a.json", ""),
        (f"s3://{BUCKET}/longhaul/", "requests/{token}.json", "{token}"),
        (f"s3://{BUCKET}/long", "haul/requests/{token}.json", "{token}"),
        (f"s3://{BUCKET}/", "longhaul/requests/{token}.json", "{token}"),
        (f"s3://{BUCKET}/{PREFIX}", "of-others.csv", "{token}"),
        (f"s3://{BUCKET}/{PREFIX}", "part-{other}.csv", "{other}"),
    ],
)
def test_a_forged_list_deletes_nothing_of_others(
    s3: Any, prefix: str, path: str, token: str
) -> None:
    attempt = AttemptId(KEY, 1, 1)
    names = {"token": attempt.token, "other": AttemptId("main#other", 1, 1).token}
    upload = Upload(path=path.format(**names), upload_id="gone", size=1)
    forged = PendingOutput(token=token.format(**names), prefix=prefix, uploads=(upload,))
    s3.put_object(Bucket=BUCKET, Key=pending_ref(attempt), Body=forged.model_dump_json().encode())
    victim = f"{prefix}{upload.path}".removeprefix(f"s3://{BUCKET}/")
    s3.put_object(Bucket=BUCKET, Key=victim, Body=b"of others")

    publisher(s3).discard(attempt)

    assert s3.get_object(Bucket=BUCKET, Key=victim)["Body"].read() == b"of others"


def test_a_list_that_takes_more_memory_than_a_function_has_is_not_read(s3: Any) -> None:
    attempt = AttemptId(KEY, 1, 1)
    bomb = b'{"token":"%s","prefix":"s3://%s/%s","replaces":[%s{}]}' % (
        attempt.token.encode(),
        BUCKET.encode(),
        PREFIX.encode(),
        b"{}," * 1_000_000,
    )
    s3.put_object(Bucket=BUCKET, Key=pending_ref(attempt), Body=bomb)

    publisher(s3).discard(attempt)
    with pytest.raises(UploadsGoneError):
        publisher(s3).publish(attempt)


# What a publisher of tables needs: a process without the rest.


REPOSITORY = Path(__file__).parents[2]


def test_a_publisher_needs_no_pyarrow() -> None:
    """The functions' layer has none."""
    publishing = """
import sys
sys.modules["pyarrow"] = None  # an import of it raises
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.iceberg.commits import TablePublisher
from longhaul.core.lease import AttemptId
from longhaul.core.settings import Mode
from longhaul.outputs.partitions import PartitionBy
from longhaul.outputs.manifest import ColumnStatistics, PendingTable, TableFile
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from simulation.aws.cloud import FakeAws
fake = FakeAws()
fake.s3.create_bucket(Bucket="data")
fake.glue.create_database(DatabaseInput={"Name": "lake"})
file = TableFile(
    path="data/t/0.parquet",
    size=1,
    rows=1,
    partition=(bytes(8),),
    columns={1: ColumnStatistics(size=1, values=1, nulls=0, lower=bytes(8), upper=bytes(8))},
)
columns = Schema(NestedField(1, "n", LongType(), required=False)).model_dump_json()
pending = PendingTable(
    database="lake",
    name="t",
    location="s3://data/tables/lake/t",
    mode="overwrite_partitions",
    columns=columns,
    partition_by=(PartitionBy(column="n"),),
    files=(file,),
)
publisher = TablePublisher(Tables(lambda: fake.glue, fake.s3, "data"), fake.clock)
first, second = (AttemptId(f"main#{job}", 1, 1) for job in "ab")
for attempt in (first, second, second):
    publisher.publish(attempt, [pending], None, {})
print(*(publisher.switch(each.token, [pending]).name for each in (first, second)))
"""
    done = subprocess.run(
        [sys.executable, "-c", publishing],
        capture_output=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.stdout == "DONE REPLACED\n", done.stderr
