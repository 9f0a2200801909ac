"""`ports.Publisher` on S3: committed output becomes visible whole, from any point at which the one before died."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from jobs.io.publisher import Uploader
from jobs.io.written import Dataset
from jobs.stopping import Stop
from longhaul.adapters.s3_publisher import S3Publisher, read_manifest
from longhaul.domain.errors import VoidCommitError
from longhaul.domain.lease import AttemptId, CommittedOutput
from longhaul.domain.manifest import MANIFEST
from longhaul.domain.pending import pending_ref
from tests.contract.conftest import Aws

BUCKET, PREFIX = "data", "out/flights/"
KEY = "main#daily"


class Strict:
    """An upload that was completed or aborted is no more; moto answers 200 again, or breaks."""

    def __init__(self, s3: Any) -> None:
        self._s3 = s3

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s3, name)

    def complete_multipart_upload(self, **arguments: Any) -> Any:
        pending = self._s3.list_multipart_uploads(Bucket=arguments["Bucket"]).get("Uploads", [])
        if not any(upload["UploadId"] == arguments["UploadId"] for upload in pending):
            raise ClientError({"Error": {"Code": "NoSuchUpload"}}, "CompleteMultipartUpload")
        return self._s3.complete_multipart_upload(**arguments)


@pytest.fixture
def s3(aws: Aws) -> Any:
    client = aws.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture
def upload(s3: Any, tmp_path: Path) -> Callable[..., CommittedOutput]:
    def upload_(attempt: int, files: dict[str, bytes], *, run: int = 1, key: str = KEY) -> CommittedOutput:
        folder = tmp_path / f"{run}-{attempt}"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        uploader = Uploader(s3, BUCKET, Stop(), begin=lambda _: None, advance=lambda _: None)
        return uploader.upload(AttemptId(key, run, attempt), f"s3://{BUCKET}/{PREFIX}", [Dataset(".", folder, 3)])

    return upload_


def publisher(s3: Any) -> S3Publisher:
    return S3Publisher(s3, BUCKET, sleep=lambda _: None)


def objects(s3: Any) -> set[str]:
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix=PREFIX).get("Contents", [])
    return {item["Key"].removeprefix(PREFIX) for item in listed}


def as_read(s3: Any) -> dict[str, bytes] | None:
    """What a reader sees that follows the manifest; fails when a file that it names is not there."""
    manifest, _ = read_manifest(s3, BUCKET, PREFIX)
    if manifest is None:
        return None
    return {
        file.path.replace(f"-{manifest.token}", ""): s3.get_object(Bucket=BUCKET, Key=PREFIX + file.path)["Body"].read()
        for file in manifest.files
    }


def pending_uploads(s3: Any) -> list[str]:
    return [upload["Key"] for upload in s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])]


OLD = {"part-0.csv": b"old", "day=1/part-0.csv": b"old too"}
NEW = {"part-0.csv": b"new", "day=2/part-0.csv": b"new too", "day=2/part-1.csv": b""}


class Killed(BaseException):
    """Not an Exception: nothing may catch it, as nothing catches SIGKILL."""


class Mortal:
    """An S3 client whose process dies at its n-th write: before it takes effect, or right after."""

    WRITES = (
        "create_multipart_upload",
        "upload_part",
        "complete_multipart_upload",
        "put_object",
        "delete_objects",
        "abort_multipart_upload",
    )

    def __init__(self, s3: Any, dies_at: int, *, after: bool) -> None:
        self._s3, self._left, self._after = s3, dies_at, after

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._s3, name)
        if name not in self.WRITES:
            return call

        def mortal(**arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise Killed
            if self._left == 0 and not self._after:
                raise Killed
            answer = call(**arguments)
            if self._left == 0:
                raise Killed
            return answer

        return mortal


def test_nothing_is_visible_before_the_commit(s3: Any, upload: Callable[..., CommittedOutput]) -> None:
    upload(1, NEW)

    assert objects(s3) == set()
    assert len(pending_uploads(s3)) == 3


def test_published_output_is_what_was_written(s3: Any, upload: Callable[..., CommittedOutput]) -> None:
    output = upload(1, NEW)

    publisher(s3).publish(output)

    assert as_read(s3) == NEW
    assert pending_uploads(s3) == []
    manifest = json.loads(s3.get_object(Bucket=BUCKET, Key=PREFIX + MANIFEST)["Body"].read())
    assert (manifest["key"], manifest["run"], manifest["attempt"], manifest["rows"]) == (KEY, 1, 1, {".": 3})
    assert {file["size"] for file in manifest["files"]} == {3, 7, 0}
    assert all(AttemptId(KEY, 1, 1).token in name for name in objects(s3) - {MANIFEST})


def test_a_new_output_replaces_the_old_files_and_leaves_strangers(
    s3: Any, upload: Callable[..., CommittedOutput]
) -> None:
    publisher(s3).publish(upload(1, OLD))
    s3.put_object(Bucket=BUCKET, Key=PREFIX + "notes.txt", Body=b"not ours")

    publisher(s3).publish(upload(2, NEW))

    assert as_read(s3) == NEW
    assert len(objects(s3)) == len(NEW) + len({MANIFEST, "notes.txt"})


# Three completions, the manifest, one deletion.
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, 6))
def test_a_kill_at_any_write_leaves_the_old_or_the_new_output_whole_and_repeating_finishes(
    s3: Any, upload: Callable[..., CommittedOutput], dies_at: int, *, after: bool
) -> None:
    publisher(s3).publish(upload(1, OLD))
    output = upload(2, NEW)

    with pytest.raises(Killed):
        publisher(Mortal(s3, dies_at, after=after)).publish(output)

    assert as_read(s3) == (NEW if (dies_at, after) >= (4, True) else OLD)
    publisher(s3).publish(output)
    assert as_read(s3) == NEW
    assert len(objects(s3)) == len(NEW) + 1
    assert pending_uploads(s3) == []


def test_publishing_twice_changes_nothing(s3: Any, upload: Callable[..., CommittedOutput]) -> None:
    output = upload(1, NEW)
    publisher(s3).publish(output)
    before = objects(s3)

    publisher(s3).publish(output)

    assert (objects(s3), as_read(s3)) == (before, NEW)


def test_a_late_publish_of_a_replaced_output_changes_nothing(s3: Any, upload: Callable[..., CommittedOutput]) -> None:
    late = upload(1, OLD)
    publisher(s3).publish(late)
    publisher(s3).publish(upload(2, NEW, run=2))
    before = objects(s3)

    publisher(s3).publish(late)

    assert (objects(s3), as_read(s3)) == (before, NEW)


def test_an_output_overtaken_by_a_later_run_leaves_nothing_behind(
    s3: Any, upload: Callable[..., CommittedOutput]
) -> None:
    overtaken, winner = upload(1, OLD), upload(2, NEW, run=2)
    publisher(s3).publish(winner)

    publisher(s3).publish(overtaken)

    assert as_read(s3) == NEW
    assert len(objects(s3)) == len(NEW) + 1
    assert pending_uploads(s3) == []


def test_uploads_that_are_gone_make_the_commit_void_and_leave_the_old_output(
    s3: Any, upload: Callable[..., CommittedOutput]
) -> None:
    publisher(s3).publish(upload(1, OLD))
    before = objects(s3)
    output = upload(2, NEW)
    s3 = Strict(s3)
    (one, *_) = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    s3.abort_multipart_upload(Bucket=BUCKET, Key=one["Key"], UploadId=one["UploadId"])

    with pytest.raises(VoidCommitError, match="1 of 3 uploads"):
        publisher(s3).publish(output)

    assert (objects(s3), as_read(s3)) == (before, OLD)
    assert pending_uploads(s3) == []


def test_a_commit_without_its_list_is_void(s3: Any) -> None:
    attempt = AttemptId(KEY, 1, 1)
    output = CommittedOutput(1, pending_ref(attempt), f"s3://{BUCKET}/{PREFIX}", 1, 1)

    with pytest.raises(VoidCommitError):
        publisher(s3).publish(output)


def test_a_manifest_removed_by_hand_does_not_withhold_the_output(
    s3: Any, upload: Callable[..., CommittedOutput]
) -> None:
    publisher(s3).publish(upload(1, OLD))
    output = upload(2, NEW)
    s3.delete_object(Bucket=BUCKET, Key=PREFIX + MANIFEST)

    publisher(s3).publish(output)

    assert as_read(s3) == NEW


def test_conflicting_conditional_writes_are_tried_again(s3: Any, upload: Callable[..., CommittedOutput]) -> None:
    class Busy:
        refusals = 2

        def __getattr__(self, name: str) -> Any:
            return getattr(s3, name)

        def put_object(self, **arguments: Any) -> Any:
            if self.refusals:
                self.refusals -= 1
                raise ClientError({"Error": {"Code": "ConditionalRequestConflict"}}, "PutObject")
            return s3.put_object(**arguments)

    output = upload(1, NEW)

    publisher(Busy()).publish(output)

    assert as_read(s3) == NEW


def test_discard_aborts_what_a_killed_attempt_left_pending(s3: Any, upload: Callable[..., CommittedOutput]) -> None:
    upload(1, OLD)
    kept = upload(2, NEW)

    publisher(s3).discard(AttemptId(KEY, 1, 1))
    publisher(s3).discard(AttemptId(KEY, 1, 1))

    assert len(pending_uploads(s3)) == len(NEW)
    publisher(s3).publish(kept)
    assert as_read(s3) == NEW


def test_discard_of_an_attempt_that_uploaded_nothing_is_quiet(s3: Any) -> None:
    publisher(s3).discard(AttemptId(KEY, 1, 7))


def test_a_hostile_manifest_deletes_nothing_outside_its_prefix(s3: Any, upload: Callable[..., CommittedOutput]) -> None:
    s3.put_object(Bucket=BUCKET, Key="out/precious.csv", Body=b"precious")
    hostile = {"key": KEY, "run": 0, "attempt": 0, "files": [{"path": "../precious.csv", "size": 1}]}
    s3.put_object(Bucket=BUCKET, Key=PREFIX + MANIFEST, Body=json.dumps(hostile).encode())

    publisher(s3).publish(upload(1, NEW))

    assert s3.get_object(Bucket=BUCKET, Key="out/precious.csv")["Body"].read() == b"precious"
    assert as_read(s3) == NEW


def test_lists_tell_whose_uploads_are_pending_until_they_are_struck_off(
    s3: Any, upload: Callable[..., CommittedOutput]
) -> None:
    keys = ["main#a/b", "main#a.b", "clean-up#A_b"]
    for key in keys:
        upload(1, OLD, key=key)
    upload(2, NEW, key=keys[0])

    found = list(publisher(s3).listed())

    assert sorted(found) == sorted([*(AttemptId(key, 1, 1) for key in keys), AttemptId(keys[0], 1, 2)])
    publisher(s3).strike_off([found[0], found[2]])
    assert list(publisher(s3).listed()) == [found[1], found[3]]
    publisher(s3).strike_off([])
    publisher(s3).strike_off(found)
    assert list(publisher(s3).listed()) == []
    assert len(pending_uploads(s3)) == 3 * len(OLD) + len(NEW)  # of the lists only
