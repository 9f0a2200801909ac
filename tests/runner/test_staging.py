"""What an input path stands for, and how it reaches the disk."""

import shutil
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlparse

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from pydantic import ValidationError

from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId
from longhaul.core.places import DataPath, parse_input
from longhaul.core.settings import PathPolicy
from longhaul.outputs.manifest import Manifest, ManifestFile
from longhaul.runner.io import work_area
from longhaul.runner.io.listing import (
    InputListing,
    NoInputError,
    Source,
    UnnamedFileError,
    digest_of,
)
from longhaul.runner.io.staged import OutOfDiskError, StagedInput
from longhaul.runner.io.transfer import InputChangingError, Moving
from longhaul.runner.io.work_area import _DOWNLOADS, DiskArea
from longhaul.runner.stopping import Stop, StopReason, StopRequestedError
from tests.runner.job_attempts import Instead

BUCKET = "data"
OLD, NEW = (AttemptId("main#january", 1767323045000, n).token for n in (1, 2))
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
    def stage_(
        path: str,
        stop: Stop | None = None,
        client: Any = None,
        begin: Callable[[int], None] = lambda _: None,
        **more: str,
    ) -> Staged:
        client = client or s3
        area = DiskArea(client, tmp_path, {"small": 30, "large": 120, "medium": 60})
        moving = Moving(stop or Stop(), begin)
        paths = {"flights": path, **more}
        inputs = {name: parse_input(each, POLICY) for name, each in paths.items()}
        staged = area.stage(InputListing(client, BUCKET), inputs, moving)["flights"]
        folder = Path(urlparse(staged.path).path)
        return Staged(
            staged,
            {
                str(file.relative_to(folder)): file.read_bytes()
                for file in folder.rglob("*")
                if file.is_file()
            },
        )

    return stage_


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_one_object(stage: Callable[..., Staged], put: Callable[..., None], name: str) -> None:
    put(f"raw/{name}", f"raw/{name}.bak", body=b"1,2")

    staged = stage(f"s3://{BUCKET}/raw/{name}")

    assert staged.files == {f"00000-{name}": b"1,2"}
    assert staged.input.extensions == {"csv"}
    assert staged.input.size_bytes == 3


@pytest.mark.parametrize("path", ["out/", "out/*.csv", "ou*/", ""])
def test_a_file_of_an_output_whose_manifest_is_not_there_is_refused_by_name(
    stage: Callable[..., Staged], put: Callable[..., None], path: str
) -> None:
    put("out/a.csv", f"out/part-00000-{OLD}-c000.csv")

    with pytest.raises(UnnamedFileError, match=rf"s3://{BUCKET}/out/part-00000-{OLD}-c000.csv"):
        stage(f"s3://{BUCKET}/{path}")


HIDDEN = (
    "_landing/2013-1.csv",
    "_landing/a/2013-1.csv",
    "_landing/_a/2013-1.csv",
    "_landing/_2013-1.csv",
)
BELOW = ("raw/", "raw/a.csv", "raw/day=1/b.csv", "raw/deep/c.csv", "raw/_tmp/x.csv", "raw/.hidden")


@pytest.mark.parametrize(
    ("path", "keys", "files"),
    [
        # A name that merely looks like an attempt's.
        ("raw/", ("raw/00000000000000012345-24.csv",), {"00000-00000000000000012345-24.csv"}),
        # Names that Hadoop cannot open.
        (
            "raw/",
            ("raw/k=[1]/ü?#[x].csv", "raw/k={2}/a-10:00.csv", "raw/k=3*/a\\b.csv"),
            {"k=3%2A/00000-a-b.csv", "k=%5B1%5D/00001-ü-#-x-.csv", "k=%7B2%7D/00002-a-10-00.csv"},
        ),
        # An object whose name would be a glob.
        ("raw/ü?#[x].csv", ("raw/ü?#[x].csv",), {"00000-ü-#-x-.csv"}),
        # What is hidden is found where the path says so.
        ("_landing/2013-*.csv", HIDDEN, {"00000-2013-1.csv"}),
        ("_landing/*/2013-1.csv", HIDDEN, {"00000-2013-1.csv"}),
        ("_l*/2013-1.csv", HIDDEN, {"00000-2013-1.csv"}),
        ("raw", BELOW, {"00000-a.csv", "day=1/00001-b.csv", "00002-c.csv"}),
        ("raw/", (*BELOW, "raw2/d.csv"), {"00000-a.csv", "day=1/00001-b.csv", "00002-c.csv"}),
        # A glob stays within its segments.
        (
            "raw/a-?.csv",
            ("raw/a-1.csv", "raw/a-2.csv", "raw/b-1.csv", "raw/a-3.txt", "raw/a-x/y.csv"),
            {"00000-a-1.csv", "00001-a-2.csv"},
        ),
        # What is Longhaul's own is no part of the bucket.
        ("", ("longhaul/requests/secret.json", "other/requests/a.json"), {"00000-a.json"}),
    ],
)
def test_a_path_finds_its_files_and_no_others(
    stage: Callable[..., Staged],
    put: Callable[..., None],
    path: str,
    keys: tuple[str, ...],
    files: set[str],
) -> None:
    put(*keys)
    assert set(stage(f"s3://{BUCKET}/{path}").files) == files


@pytest.mark.parametrize("letter", ["x", "語"])
def test_name_too_long_for_a_disk_is_cut_before_its_extension(
    stage: Callable[..., Staged], put: Callable[..., None], letter: str
) -> None:
    name = letter * (600 // len(letter.encode()))
    put(f"raw/a{name}.csv.gz", f"raw/b{name}.csv.gz")

    files = stage(f"s3://{BUCKET}/raw/").files

    assert len(files) == 2
    assert all(f".{file}.crc".endswith(f"{letter}.csv.gz.crc") for file in files)
    assert all(len(f".{file}.crc".encode()) <= 255 for file in files)


SEVERAL = {
    "clean/m1/": (f"part-0-{NEW}.json", "quarantine/part-0.json"),
    "clean/m2/deep/": (f"part-0-{NEW}.json",),
}
BESIDE_SEVERAL = (
    *(f"clean/m1/part-0-{OLD}.json", "clean/m1/beside.json", "clean/m0/others.json"),
    "clean/m0/_SUCCESS",  # of Spark alone
)
FOUND_IN_SEVERAL = {"00000-others.json", f"00001-part-0-{NEW}.json", f"00002-part-0-{NEW}.json"}
PARTED = {"out/x/": (f"p=0/part-0-{NEW}.json",)}
BESIDE_PARTED = (f"out/x/p=0/part-0-{OLD}.json", "out/x/p=0/beside.json", "out/x/notes/a.txt")
DATASETS = {"clean/": ("year=2013/part-0.parquet", "quarantine/day=1/part-0.json")}


@pytest.mark.parametrize(
    ("outputs", "beside", "files", "path"),
    [
        # Above outputs: what each manifest names, and the files of others.
        *(
            (SEVERAL, BESIDE_SEVERAL, FOUND_IN_SEVERAL, path)
            for path in ("clean/*/", "clean/", "clean", "cle*")
        ),
        # A part of an output: what its manifest names of it.
        *(
            (PARTED, BESIDE_PARTED, {f"00000-part-0-{NEW}.json"}, path)
            for path in (
                *("out/x/p=0/", "out/x/p=0/*", "out/x/p=[0]/", "out/x/p=*/", "out/x/p=*/*"),
                "out/*/p=0/*.json",
            )
        ),
        # Files of others beside an output: by their own path.
        *(
            (PARTED, BESIDE_PARTED, {"00000-a.txt"}, path)
            for path in ("out/x/notes/", "out/x/notes/*.txt", "out/*/notes")
        ),
        # A dataset of an output.
        (
            DATASETS,
            ("clean/quarantine/left-over.json", "clean/year=2013/left-over.parquet"),
            {"day=1/00000-part-0.json"},
            "clean/quarantine/",
        ),
    ],
)
def test_of_outputs_a_path_finds_what_their_manifests_name(
    stage: Callable[..., Staged],
    put: Callable[..., None],
    s3: Any,
    outputs: dict[str, tuple[str, ...]],
    beside: tuple[str, ...],
    files: set[str],
    path: str,
) -> None:
    for prefix, paths in outputs.items():
        publish(s3, prefix, *paths)
    put(*beside)

    assert set(stage(f"s3://{BUCKET}/{path}").files) == files


def test_a_path_above_an_output_without_a_main_dataset_is_refused_with_its_datasets(
    stage: Callable[..., Staged], s3: Any
) -> None:
    publish(s3, "clean/m1/", "part-0.json")
    publish(s3, "clean/m2/", "quarantine/part-0.json")

    with pytest.raises(NoInputError, match=rf"s3://{BUCKET}/clean/m2/ .* quarantine"):
        stage(f"s3://{BUCKET}/clean/")


def test_a_glob_finds_the_files_of_a_publication_that_came_after_its_look(s3: Any) -> None:
    publish(s3, "out/", f"p=0/part-0-{OLD}.json")

    def get_object(**arguments: Any) -> Any:
        if arguments["Key"] == "out/_SUCCESS":
            publish(s3, "out/", f"p=1/part-0-{NEW}.json")
        return s3.get_object(**arguments)

    replaced: Any = Instead(s3, get_object=get_object)
    listing = InputListing(replaced, BUCKET)
    found = listing.sources_of(parse_input(f"s3://{BUCKET}/out/p=*/*.json", POLICY))
    assert [source.key for source in found] == [f"out/p=1/part-0-{NEW}.json"]


@pytest.mark.parametrize("path", ["s3://landing/team/raw/2013/", "s3://landing/team/raw/*"])
def test_an_input_whose_outer_folders_may_not_be_read_is_read(
    stage: Callable[..., Staged], put: Callable[..., None], s3: Any, path: str
) -> None:
    put("team/raw/2013/a.csv", bucket="landing")

    def get_object(**arguments: Any) -> Any:
        if not arguments["Key"].startswith("team/raw/2013/"):
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")
        return s3.get_object(**arguments)

    guarded = Instead(s3, get_object=get_object)
    assert set(stage(path, client=guarded).files) == {"00000-a.csv"}


def test_manifest_at_the_buckets_root_opens_nothing_of_longhauls_own(
    stage: Callable[..., Staged], put: Callable[..., None], s3: Any
) -> None:
    put("longhaul/requests/secret.json", "a.json", body=b"1")
    named = [
        ManifestFile(path="longhaul/requests/secret.json", size=1),
        ManifestFile(path="a.json", size=1),
    ]
    manifest = Manifest(key="main#forged", run=1, attempt=1, files=tuple(named))
    s3.put_object(Bucket=BUCKET, Key="_SUCCESS", Body=manifest.model_dump_json().encode())
    assert set(stage(f"s3://{BUCKET}/").files) == {"00000-a.json"}


@pytest.mark.parametrize("path", ["a\nb", "a\ufffeb", "../a", "/a"])
def test_manifest_with_a_path_that_is_none_is_no_manifest_of_ours(path: str) -> None:
    with pytest.raises(ValidationError):
        ManifestFile(path=path, size=1)


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


def test_every_missing_input_is_named_at_once(
    stage: Callable[..., Staged], put: Callable[..., None]
) -> None:
    put("empty.csv", body=b"")
    with pytest.raises(PermanentJobError) as error:
        stage("s3://data/none.csv", planes="s3://data/empty.csv", tails="s3://data/none/*")
    assert str(error.value) == (
        "input 'flights': nothing at s3://data/none.csv; "
        "input 'planes': s3://data/empty.csv is empty (1 files of 0 bytes); "
        "input 'tails': nothing at s3://data/none/*"
    )


def test_a_missing_bucket_is_an_empty_input(stage: Callable[..., Staged], s3: Any) -> None:
    s3.delete_bucket(Bucket="landing")
    with pytest.raises(PermanentJobError, match="nothing at s3://landing/a/"):
        stage("s3://landing/a/")


@pytest.mark.slow
def test_thousands_of_small_files(stage: Callable[..., Staged], put: Callable[..., None]) -> None:
    put(*(f"raw/{n % 7}/{n}.json" for n in range(3_000)), body=b"{}")
    assert len(stage(f"s3://{BUCKET}/raw/").files) == 3_000


def test_each_file_costs_one_request(
    stage: Callable[..., Staged], put: Callable[..., None], s3: Any
) -> None:
    put(*(f"raw/{n}.json" for n in range(20)), body=b"{}")
    publish(s3, "clean/", *(f"{n}.json" for n in range(20)))
    asked: list[str] = []
    s3.meta.events.register("before-call.s3.HeadObject", lambda params, **_: asked.append(params))
    assert len(stage(f"s3://{BUCKET}/raw/", more=f"s3://{BUCKET}/clean/").files) == 20
    assert asked == []


def test_a_large_file_is_read_whole_though_its_manifest_gives_another_size(
    stage: Callable[..., Staged], s3: Any
) -> None:
    publish(s3, "clean/", "a.csv", size=_DOWNLOADS.multipart_threshold)
    body = bytes(_DOWNLOADS.multipart_threshold + 1)
    s3.put_object(Bucket=BUCKET, Key="clean/a.csv", Body=body)
    assert stage(f"s3://{BUCKET}/clean/").files == {"00000-a.csv": body}


def test_a_large_file_that_is_replaced_before_it_is_read_is_read_once_more(
    stage: Callable[..., Staged], put: Callable[..., None], s3: Any
) -> None:
    old, new = (letter * _DOWNLOADS.multipart_threshold for letter in (b"o", b"n"))
    put("raw/a.csv", body=old)

    def replace(**_: object) -> None:
        s3.meta.events.unregister("before-call.s3.GetObject", replace)
        put("raw/a.csv", body=new)

    s3.meta.events.register("before-call.s3.GetObject", replace)
    assert stage(f"s3://{BUCKET}/raw/a.csv").files == {"00000-a.csv": new}


def test_a_small_object_that_is_replaced_before_it_is_read_is_read_whole_as_it_is_now(
    stage: Callable[..., Staged], put: Callable[..., None]
) -> None:
    put("raw/a.csv", "raw/b.csv", body=b"old")

    # As the download begins, after the listing.
    staged = stage(f"s3://{BUCKET}/raw/", begin=lambda _: put("raw/b.csv", body=b"new, and longer"))

    assert staged.files == {"00000-a.csv": b"old", "00001-b.csv": b"new, and longer"}


def test_an_archived_object_is_permanent_and_named(
    stage: Callable[..., Staged], put: Callable[..., None], s3: Any
) -> None:
    put("raw/a.csv", "raw/b.csv")
    s3.put_object(Bucket=BUCKET, Key="raw/c.csv", Body=b"x", StorageClass="GLACIER")
    with pytest.raises(PermanentJobError, match=r"s3://data/raw/c\.csv is archived: restore it"):
        stage(f"s3://{BUCKET}/raw/")


GIB = 2**30


@pytest.mark.parametrize(
    ("input_gib", "free_gib", "kind", "more"),
    [
        (20, 15, OutOfDiskError, ""),
        (40, 20, OutOfDiskError, ""),
        (
            100,
            20,
            PermanentJobError,
            ": the largest size, large, has 120 GiB; use the engine emr-serverless, or split",
        ),
    ],
)
def test_the_disk_is_checked_before_the_download_and_is_hopeless_only_if_no_size_would_do(
    stage: Callable[..., Staged],
    monkeypatch: pytest.MonkeyPatch,
    input_gib: int,
    free_gib: int,
    kind: type[Exception],
    more: str,
) -> None:
    large = Instead(None, head_object=lambda **_: {"ContentLength": input_gib * GIB, "ETag": "l"})
    # 10 GiB of the disk are the image's.
    usage = shutil._ntuple_diskusage((free_gib + 10) * GIB, 10 * GIB, free_gib * GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(kind) as error:
        stage(f"s3://{BUCKET}/large.csv", client=large)
    assert str(error.value).startswith(
        f"the inputs are {input_gib * 1024} MiB and need {input_gib * 1536} MiB of disk,"
        f" of which {free_gib * 1024} MiB are free{more}"
    )


def test_an_output_replaced_while_it_is_read_is_read_once_more(
    stage: Callable[..., Staged], s3: Any, put: Callable[..., None]
) -> None:
    put("clean/new.csv", body=b"new")
    publish(s3, "clean/", "old.csv")
    s3.delete_object(Bucket=BUCKET, Key="clean/old.csv")

    # As the download begins, after the listing.
    staged = stage(f"s3://{BUCKET}/clean/", begin=lambda _: publish(s3, "clean/", "new.csv"))
    assert staged.files == {"00000-new.csv": b"x"}


def test_an_output_that_keeps_changing_fails_the_attempt_and_not_the_job(
    stage: Callable[..., Staged], s3: Any
) -> None:
    publish(s3, "clean/", "old.csv")
    s3.delete_object(Bucket=BUCKET, Key="clean/old.csv")
    with pytest.raises(
        InputChangingError,
        match=r"keeps changing while it is read: s3://data/clean/old\.csv is gone",
    ):
        stage(f"s3://{BUCKET}/clean/")


def test_an_input_that_its_writer_deletes_before_it_writes_it_anew_may_be_there_next_time(
    stage: Callable[..., Staged], s3: Any, put: Callable[..., None]
) -> None:
    put("raw/a.csv")

    def delete(_: int) -> None:
        s3.delete_object(Bucket=BUCKET, Key="raw/a.csv")

    with pytest.raises(InputChangingError, match="input 'flights': nothing at s3://data/raw/"):
        stage(f"s3://{BUCKET}/raw/", begin=delete)


def test_a_stop_ends_the_transfer(stage: Callable[..., Staged], put: Callable[..., None]) -> None:
    put("raw/a.csv")
    stop = Stop()
    stop.request(StopReason.TERMINATED, "SIGTERM")
    with pytest.raises(StopRequestedError):
        stage(f"s3://{BUCKET}/raw/a.csv", stop=stop)


def publish(s3: Any, prefix: str, *paths: str, size: int = 1) -> None:
    files = [
        ManifestFile(path=p, size=size, dataset="quarantine" if p.startswith("quarantine") else ".")
        for p in paths
    ]
    for file in files:
        s3.put_object(Bucket=BUCKET, Key=prefix + file.path, Body=b"x")
    manifest = Manifest(key="main#x", run=1, attempt=1, files=tuple(files))
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}_SUCCESS", Body=manifest.model_dump_json().encode())


def staged_bytes(folder: Path, objects: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The most memory that staging takes."""
    taken: deque[int] = deque(maxlen=1)

    def swallow(_client: Any, _config: Any, places: Iterable[Any], *_: Any, **__: Any) -> None:
        taken.extend(number for number, _ in enumerate(places, 1))

    s3: Any = Listed(objects, "raw/year=2013")
    area, inputs = DiskArea(s3, folder, {}), InputListing(s3, "data")
    monkeypatch.setattr(work_area, "transfer", swallow)
    monkeypatch.setattr(DiskArea, "_check_disk", lambda *_: None)
    tracemalloc.start()
    try:
        staged = area.stage(inputs, {"raw": DataPath("s3", "landing", "raw/")}, Moving(Stop()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert staged["raw"].files == taken[0] == objects
    return peak


def test_each_object_of_an_input_takes_less_than_300_bytes_however_many_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first one also imports, and Python's table of names grows.
    _, few, many = (
        staged_bytes(tmp_path / str(n), count, monkeypatch)
        for n, count in enumerate((25_000, 5_000, 25_000))
    )
    assert (many - few) / 20_000 < 300


def test_digest_does_not_depend_on_the_order_of_the_objects() -> None:
    sources = [Source("data", key, 1, etag=f'"{key}"') for key in ("a", "b/c", "b")]
    assert digest_of(sources) == digest_of(sources[::-1]) != digest_of(sources[:2])
    # As checkpoints of earlier versions name it.
    assert digest_of(sources) == "5fef9d324775ae65dc7f7653592f58ce"


class Listed:
    """An S3 that lists so many objects in a folder, page by page, and holds none."""

    def __init__(self, objects: int, folder: str) -> None:
        self._objects = objects
        self._folder = folder

    def get_object(self, **_: str) -> None:
        raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")

    head_object = get_object

    def get_paginator(self, _: str) -> "Listed":
        return self

    def paginate(self, **_: str) -> Iterator[Any]:
        for page in range(0, self._objects, 1_000):
            yield {
                "Contents": [
                    {
                        "Key": f"{self._folder}/flights-{number:08}.csv",
                        "Size": 60_000 + number,
                        "ETag": f'"{number:032x}"',
                    }
                    for number in range(page, min(page + 1_000, self._objects))
                ]
            }
