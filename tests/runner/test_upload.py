"""Local files become pending uploads: names, parts, memory, stops."""

import os
from pathlib import Path
from socket import AF_UNIX, socket
from threading import Lock
from time import sleep
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId
from longhaul.outputs.manifest import PendingOutput
from longhaul.outputs.pending import pending_ref
from longhaul.outputs.publisher import S3Publisher, read_manifest
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.written import (
    Dataset,
    LocalFile,
    NotAFileError,
    OpenFileError,
    files_of,
    final_name,
)
from longhaul.runner.stopping import Stop, StopReason, StopRequestedError
from tests.plans import plan_of

ATTEMPT = AttemptId("main#january", 1767323045000, 2)
MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("name", "final"),
    [
        (
            "part-00000-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-c000.zstd.parquet",
            "part-00000-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-c000-TOKEN.zstd.parquet",
        ),
        ("report.csv.gz", "report-TOKEN.csv.gz"),
        ("README", "README-TOKEN"),
        # Names may differ in a UUID alone.
        (
            "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f.wav",
            "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-TOKEN.wav",
        ),
    ],
)
def test_the_token_is_part_of_every_name(name: str, final: str) -> None:
    assert final_name(name, "TOKEN") == final


def send(s3: Any, *datasets: Dataset) -> None:
    Uploader(s3, "data", Moving(Stop())).send(plan_of(s3, ATTEMPT, "s3://data/out/", datasets))


def test_two_files_for_one_place_are_refused_before_the_first_upload(
    s3: Any, tmp_path: Path
) -> None:
    for folder in ("main/bad", "named-bad"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.csv").write_text(folder)
    datasets = [Dataset(".", tmp_path / "main"), Dataset("bad", tmp_path / "named-bad")]

    with pytest.raises(PermanentJobError, match="two files would be bad/a-"):
        send(s3, *datasets)

    assert pending(s3) == []


def test_partition_of_any_writing_is_published(s3: Any, tmp_path: Path) -> None:
    names = ["क्\u200cष", "👩\u200d🚀", "co\u00adop", "a\u2028b"]
    for name in names:
        (tmp_path / f"word={name}").mkdir()
        (tmp_path / f"word={name}" / "a.csv").write_text("x")

    send(s3, Dataset(".", tmp_path))
    S3Publisher(s3, "data").publish(ATTEMPT)

    manifest, _ = read_manifest(s3, "data", "out/")
    assert manifest is not None
    assert {file.path.split("/")[0] for file in manifest.files} == {
        f"word={name}" for name in names
    }


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a\nb.csv", "characters that S3 cannot list"),
        ("a\uffffb.csv", "characters that S3 cannot list"),
        (os.fsdecode(b"\xff.csv"), "characters that S3 cannot list"),
        (f"{'/'.join(['x' * 200] * 5)}/a.csv", "longer than 1024 bytes"),
    ],
)
def test_name_that_s3_cannot_hold_is_refused_before_the_first_upload(
    s3: Any, tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("x")
    (tmp_path / "0.csv").write_text("x")

    with pytest.raises(PermanentJobError, match=f"^output: .*{why}"):
        send(s3, Dataset(".", tmp_path))

    assert pending(s3) == []


def test_partition_folders_and_datasets_are_kept_and_sparks_markers_left_out(
    tmp_path: Path,
) -> None:
    for path in (
        "day=1/part-0.csv",
        "_SUCCESS",
        ".part-0.csv.crc",
        "day=1/.part-0.csv.crc",
        "_temporary/0/x.csv",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")

    main = [file.path for file in files_of(cast("Any", None), Dataset(".", tmp_path), "T")]
    named = [
        file.path for file in files_of(cast("Any", None), Dataset("quarantine", tmp_path), "T")
    ]

    assert main == ["day=1/part-0-T.csv"]
    assert named == ["quarantine/day=1/part-0-T.csv"]


def _socket(path: Path, _secret: Path) -> None:
    with socket(AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))


@pytest.mark.parametrize("name", ["part-0.csv", "day=1/part-0.csv", ".hidden", "_temporary/x"])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path, secret: path.symlink_to(secret), id="link"),
        pytest.param(lambda path, secret: path.symlink_to(secret.parent), id="link to a folder"),
        pytest.param(lambda path, secret: path.symlink_to(f"{secret}.not"), id="dangling link"),
        pytest.param(lambda path, _: os.mkfifo(path), id="pipe"),
        pytest.param(_socket, id="socket"),
    ],
)
def test_what_is_no_regular_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any, name: str
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 108 bytes
    secret, folder = tmp_path / "elsewhere" / "secret.txt", tmp_path / "out"
    secret.parent.mkdir()
    secret.write_text("secret")
    (folder / name).parent.mkdir(parents=True)
    (folder / "part-1.csv").write_text("x")
    make(folder / name, secret)

    with pytest.raises(NotAFileError, match=f"'{name}', which is no regular file"):
        files_of(cast("Any", None), Dataset(".", folder), "T")


def test_an_output_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.txt").write_text("secret")
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(NotAFileError, match="the output folder is a link"):
        files_of(cast("Any", None), Dataset(".", tmp_path / "out"), "T")


def test_a_file_that_grows_while_it_is_sent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "part-0.csv").write_text("seven..")
    listed = LocalFile("part-0-T.csv", ".", 6, tmp_path / "part-0.csv")

    with pytest.raises(OpenFileError, match="has changed while it was sent"):
        listed.put_part(cast("Any", None), "data", "key", cast("Any", None), 1)


def test_a_file_that_became_a_link_before_its_upload_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "part-0.csv").symlink_to(tmp_path / "secret.txt")
    listed = LocalFile("part-0-T.csv", ".", 6, tmp_path / "part-0.csv")

    with pytest.raises(OSError, match="symbolic links"):
        listed.put_part(cast("Any", None), "data", "key", cast("Any", None), 1)


def test_a_large_file_goes_in_parts_and_arrives_whole(s3: Any, tmp_path: Path) -> None:
    content = b"".join(bytes([n]) * MIB for n in range(20))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "large.bin").write_bytes(content)
    moved: list[int] = []
    uploader = Uploader(s3, "data", Moving(Stop(), moved.append, moved.append))

    output = uploader.send(plan_of(s3, ATTEMPT, "s3://data/out/", [Dataset(".", tmp_path / "out")]))

    pending = PendingOutput.model_validate_json(
        s3.get_object(Bucket="data", Key=pending_ref(ATTEMPT))["Body"].read()
    )
    assert [part.n for part in pending.uploads[0].parts] == [1, 2, 3]
    assert moved[0] == sum(moved[1:]) == output.size_bytes == len(content)
    S3Publisher(s3, "data").publish(ATTEMPT)
    key = f"out/large-{ATTEMPT.token}.bin"
    assert s3.get_object(Bucket="data", Key=key)["Body"].read() == content


def test_a_stop_between_parts_leaves_uploads_that_can_be_found_and_discarded(
    s3: Any,
    tmp_path: Path,
) -> None:
    for n in range(20):
        (tmp_path / f"{n}.csv").write_text("x")
    stop = Stop()
    moving = Moving(stop, advance=lambda _: stop.request(StopReason.SUPERSEDED, "lost"))
    uploader = Uploader(s3, "data", moving)

    with pytest.raises(StopRequestedError):
        uploader.send(plan_of(s3, ATTEMPT, "s3://data/out/", [Dataset(".", tmp_path)]))

    assert len(pending(s3)) == 20
    S3Publisher(s3, "data").discard(ATTEMPT)
    assert pending(s3) == []


def pending(s3: Any) -> list[Any]:
    uploads: list[Any] = s3.list_multipart_uploads(Bucket="data").get("Uploads", [])
    return uploads


def test_a_file_of_many_gb_is_sent_in_bounded_memory(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / "large.bin").open("wb") as file:
        file.truncate(2048 * MIB)  # sparse: it takes no disk

    class Meter:
        """Takes parts and forgets them; knows the most that was under way at once."""

        under_way = most = sent = 0
        lock = Lock()

        def get_object(self, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")

        def put_object(self, **_: Any) -> None:
            """Keep nothing."""

        def create_multipart_upload(self, **_: Any) -> dict[str, str]:
            return {"UploadId": "1"}

        def upload_part(self, *, Body: bytes, **_: Any) -> dict[str, str]:  # noqa: N803 - botocore's name
            with self.lock:
                self.under_way += len(Body)
                self.most = max(self.most, self.under_way)
            sleep(0.001)  # let the other threads in
            with self.lock:
                self.under_way -= len(Body)
                self.sent += len(Body)
            return {"ETag": "1"}

    meter = Meter()
    send(meter, Dataset(".", tmp_path / "out"))
    assert meter.sent == 2048 * MIB
    assert meter.most <= 64 * MIB
