"""What an input path stands for, and how it reaches the disk."""

import gzip
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlparse

import boto3
import pytest
from moto import mock_aws

from jobs.io.listing import Listing
from jobs.io.staging import StagedInput, Stager
from jobs.stopping import Stop, StopReason, StopRequestedError
from longhaul.domain.errors import PermanentJobError
from longhaul.domain.manifest import Manifest, ManifestFile
from longhaul.domain.paths import parse_input
from longhaul.settings import PathPolicy

BUCKET = "data"
POLICY = PathPolicy(data_bucket=BUCKET, input_buckets=("landing",), allow_file=True)


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3")
        for bucket in (BUCKET, "landing"):
            client.create_bucket(Bucket=bucket)
        yield client


@pytest.fixture
def put(s3: Any) -> Callable[..., None]:
    def put_(*keys: str, body: bytes = b"x", bucket: str = BUCKET) -> None:
        for key in keys:
            s3.put_object(Bucket=bucket, Key=key, Body=body)

    return put_


class Staged(NamedTuple):
    input: StagedInput
    files: dict[str, bytes]


@pytest.fixture
def stage(s3: Any, tmp_path: Path) -> Callable[..., Staged]:
    def stage_(path: str, stop: Stop | None = None, client: Any = None) -> Staged:
        client = client or s3
        stager = Stager(
            client,
            Listing(client, BUCKET),
            tmp_path / "inputs",
            stop or Stop(),
            begin=lambda _: None,
            advance=lambda _: None,
        )
        staged = stager.stage({"flights": parse_input(path, POLICY)})["flights"]
        folder = Path(urlparse(staged.path).path)
        return Staged(
            staged,
            {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()},
        )

    return stage_


def test_one_object(stage: Callable[..., Staged], put: Callable[..., None]) -> None:
    put("raw/a.csv", "raw/a.csv.bak", body=b"1,2")

    staged = stage(f"s3://{BUCKET}/raw/a.csv")

    assert staged.files == {"00000-a.csv": b"1,2"}
    assert staged.input.extensions == {"csv"}
    assert staged.input.size_bytes == 3


def test_a_compressed_file_keeps_its_name_and_tells_its_format(
    stage: Callable[..., Staged], put: Callable[..., None]
) -> None:
    put("raw/a.csv.gz", body=gzip.compress(b"1,2"))
    assert stage(f"s3://{BUCKET}/raw/a.csv.gz").input.extensions == {"csv"}


@pytest.mark.parametrize("path", [f"s3://{BUCKET}/raw", f"s3://{BUCKET}/raw/"])
def test_a_prefix_without_hidden_files_and_with_partition_folders(
    stage: Callable[..., Staged], put: Callable[..., None], path: str
) -> None:
    put("raw/", "raw/a.csv", "raw/day=1/b.csv", "raw/deep/c.csv", "raw/_tmp/x.csv", "raw/.hidden", "raw2/d.csv")
    assert set(stage(path).files) == {"00000-a.csv", "day=1/00001-b.csv", "00002-c.csv"}


def test_a_glob_over_objects_stays_within_its_segments(stage: Callable[..., Staged], put: Callable[..., None]) -> None:
    put("raw/a-1.csv", "raw/a-2.csv", "raw/b-1.csv", "raw/a-3.txt", "raw/a-x/y.csv")
    assert set(stage(f"s3://{BUCKET}/raw/a-?.csv").files) == {"00000-a-1.csv", "00001-a-2.csv"}


def test_a_glob_over_outputs_follows_each_manifest(
    stage: Callable[..., Staged], put: Callable[..., None], s3: Any
) -> None:
    for month in ("m1", "m2"):
        publish(s3, f"clean/{month}/", "year=2013/part-0.parquet", "quarantine/part-0.json")
        put(f"clean/{month}/left-over.parquet")
    assert set(stage(f"s3://{BUCKET}/clean/*/").files) == {
        "year=2013/00000-part-0.parquet",
        "year=2013/00001-part-0.parquet",
    }


def test_no_glob_reaches_what_is_longhauls_own(stage: Callable[..., Staged], put: Callable[..., None]) -> None:
    put("longhaul/requests/secret.json", "other/requests/a.json", body=b"1")
    assert set(stage(f"s3://{BUCKET}/*/requests/*").files) == {"00000-a.json"}
    assert set(stage(f"s3://{BUCKET}/").files) == {"00000-a.json"}


def test_local_files_are_linked(stage: Callable[..., Staged], tmp_path: Path) -> None:
    (tmp_path / "in" / "day=1").mkdir(parents=True)
    (tmp_path / "in" / "day=1" / "a.csv").write_text("1")
    assert stage(f"file://{tmp_path}/in").files == {"day=1/00000-a.csv": b"1"}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("s3://data/none.csv", "nothing at s3://data/none.csv"),
        ("s3://landing/none/", "nothing at s3://landing/none/"),
        ("s3://data/none/*.csv", "nothing at"),
        ("s3://data/empty.csv", "is empty"),
        ("file:///no/such/file", "nothing at file:///no/such/file"),
    ],
)
def test_a_missing_or_empty_input_is_permanent_and_named(
    stage: Callable[..., Staged], put: Callable[..., None], path: str, why: str
) -> None:
    put("empty.csv", body=b"")
    with pytest.raises(PermanentJobError, match=f"^input 'flights': .*{why}"):
        stage(path)


def test_the_disk_is_checked_before_the_download(
    stage: Callable[..., Staged], put: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("raw/a.csv")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 100, 0))
    with pytest.raises(PermanentJobError, match="ask for a larger size"):
        stage(f"s3://{BUCKET}/raw/")
    assert not list(tmp_path.rglob("*.csv"))


def test_an_output_replaced_while_it_is_read_is_read_once_more(
    stage: Callable[..., Staged], s3: Any, put: Callable[..., None]
) -> None:
    put("clean/new.csv", body=b"new")
    publish(s3, "clean/", "old.csv")
    s3.delete_object(Bucket=BUCKET, Key="clean/old.csv")

    class Replaced:
        reads = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(s3, name)

        def get_object(self, **arguments: Any) -> Any:
            if arguments["Key"] == "clean/_SUCCESS":
                self.reads += 1
                if self.reads == 2:
                    publish(s3, "clean/", "new.csv")
            return s3.get_object(**arguments)

    assert stage(f"s3://{BUCKET}/clean/", client=Replaced()).files == {"00000-new.csv": b"x"}


def test_a_stop_ends_the_transfer(stage: Callable[..., Staged], put: Callable[..., None]) -> None:
    put("raw/a.csv")
    stop = Stop()
    stop.request(StopReason.TERMINATED, "SIGTERM")
    with pytest.raises(StopRequestedError):
        stage(f"s3://{BUCKET}/raw/a.csv", stop=stop)


def publish(s3: Any, prefix: str, *paths: str) -> None:
    files = [ManifestFile(path=p, size=1, dataset="quarantine" if p.startswith("quarantine") else ".") for p in paths]
    for file in files:
        s3.put_object(Bucket=BUCKET, Key=prefix + file.path, Body=b"x")
    manifest = Manifest(key="main#x", run=1, attempt=1, files=tuple(files))
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}_SUCCESS", Body=manifest.model_dump_json().encode())
