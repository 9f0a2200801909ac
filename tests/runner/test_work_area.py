"""The work area of a cluster: a prefix in S3, on moto. What Spark would do there, the tests do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId, folder_name
from longhaul.core.places import DataPath
from longhaul.outputs.manifest import Manifest, ManifestFile, Upload
from longhaul.outputs.publisher import S3Publisher
from longhaul.runner.io.listing import InputListing, Source
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.work_area import BucketArea, DiskArea, area_at, reads_alike
from longhaul.runner.io.written import Dataset, NoOutputError, S3File, S3Folder, files_of
from longhaul.runner.stopping import Stop, StopReason, StopRequestedError
from tests.plans import plan_of
from tests.runner.job_attempts import Instead

ATTEMPT = AttemptId("main#january", 1767323045000, 2)
PREFIX = f"longhaul/work/{folder_name(ATTEMPT.key)}/1767323045000-2/"
UUID = "0123abcd-0123-0123-0123-0123456789ab"


@pytest.fixture
def area(s3: Any) -> BucketArea:
    return BucketArea.at("s3://data/longhaul/work/", s3, ATTEMPT)


def put(s3: Any, *keys: str) -> None:
    for key in keys:
        s3.put_object(Bucket="data", Key=key, Body=key.encode())


def keys(s3: Any, prefix: str = "") -> list[str]:
    return [
        item["Key"] for item in s3.list_objects_v2(Bucket="data", Prefix=prefix).get("Contents", [])
    ]


def manifest(s3: Any, prefix: str, *paths: str) -> None:
    files = tuple(ManifestFile(path=path, size=1, dataset=".") for path in paths)
    listed = Manifest(key="main#x", run=1, attempt=1, files=files, rows={})
    s3.put_object(Bucket="data", Key=f"{prefix}_SUCCESS", Body=listed.model_dump_json().encode())


@pytest.fixture
def stage(s3: Any, area: BucketArea) -> Callable[..., StagedInput]:
    def stage(key: str, of: BucketArea = area, **differing: Any) -> StagedInput:
        usual = {"listing": InputListing(s3, "data"), "moving": Moving(Stop())}
        inputs = {"x": DataPath("s3", "data", key)}
        return of.stage(inputs=inputs, **{**usual, **differing})["x"]

    return stage


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("raw/one.csv", "s3://data/raw/one.csv"),
        ("raw", "s3://data/raw/"),
        ("raw/*.csv", "s3://data/raw/*.csv"),
        ("days", "s3://data/days/"),
    ],
)
def test_what_spark_reads_as_we_do_stays_where_it_is(
    s3: Any, stage: Callable[..., StagedInput], key: str, path: str
) -> None:
    put(s3, "raw/one.csv", "raw/two.csv", "raw/_hidden.csv", "days/day=1/a.csv", "days/day=2/b.csv")

    assert stage(key).path == path

    assert keys(s3, "longhaul/") == []


def test_a_copy_needs_no_rights_to_tags(s3: Any, stage: Callable[..., StagedInput]) -> None:
    put(s3, "raw/a/one.csv")
    s3.put_object_tagging(
        Bucket="data", Key="raw/a/one.csv", Tagging={"TagSet": [{"Key": "team", "Value": "x"}]}
    )

    stage("raw")

    (copy,) = keys(s3, PREFIX)
    assert s3.get_object_tagging(Bucket="data", Key=copy)["TagSet"] == []


def test_an_output_of_ours_is_copied_as_its_manifest_says(
    s3: Any, stage: Callable[..., StagedInput]
) -> None:
    put(s3, "clean/month=1/new.parquet", "clean/month=1/old.parquet", "clean/quarantine/bad.json")
    manifest(s3, "clean/", "month=1/new.parquet")

    staged = stage("clean")

    assert staged.path == f"s3://data/{PREFIX}inputs/first/x/"
    assert keys(s3, PREFIX) == [f"{PREFIX}inputs/first/x/month=1/00000-new.parquet"]
    assert (staged.files, staged.extensions) == (1, frozenset({"parquet"}))
    copy = s3.get_object(Bucket="data", Key=keys(s3, PREFIX)[0])["Body"].read()
    assert copy == b"clean/month=1/new.parquet"


@pytest.mark.parametrize(
    ("there", "key", "copies"),
    [
        # A part of an output of ours: as its manifest says.
        *(
            (("clean/x/month=1/new.parquet", "clean/x/month=1/old.parquet"), key, ["new.parquet"])
            for key in ("clean/x/month=1", "clean/x/month=1/*", "clean/x/month=*")
        ),
        # What Spark would skip: folders, and a hidden file.
        (("raw/a/one.csv", "raw/b/one.csv"), "raw", ["one.csv", "one.csv"]),
        (("raw/_x.csv",), "raw/_x.csv", ["_x.csv"]),
    ],
)
def test_what_spark_would_read_otherwise_is_copied_into_one_folder(
    s3: Any,
    stage: Callable[..., StagedInput],
    there: tuple[str, ...],
    key: str,
    copies: list[str],
) -> None:
    put(s3, *there)
    manifest(s3, "clean/x/", "month=1/new.parquet")

    assert stage(key).path == f"s3://data/{PREFIX}inputs/first/x/"

    expected = [f"{PREFIX}inputs/first/x/{n:05}-{name}" for n, name in enumerate(copies)]
    assert keys(s3, PREFIX) == expected


@pytest.mark.parametrize("key", ["?onghaul/requests/*.json", "*/requests/*.json", "l*/*/*", ""])
def test_a_path_that_could_lead_spark_to_what_is_longhauls_own_is_never_given_to_it(
    s3: Any, stage: Callable[..., StagedInput], key: str
) -> None:
    put(s3, "longhaul/requests/secret.json", "lake/requests/a.json", "xonghaul/requests/a.json")
    put(s3, "a.json")

    staged = stage(key)

    assert staged.path == f"s3://data/{PREFIX}inputs/first/x/"
    assert not [each for each in keys(s3, PREFIX) if "secret" in each]


@pytest.mark.parametrize("is_replaced", [True, False])
def test_an_output_that_changes_while_it_is_copied_is_looked_at_again(
    s3: Any,
    stage: Callable[..., StagedInput],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_replaced: bool,
) -> None:
    manifest(s3, "clean/", "old.parquet")
    listing = InputListing(s3, "data")
    sources_of = listing.sources_of

    def changed_meanwhile(path: DataPath) -> list[Source]:
        found = sources_of(path)
        put(s3, "clean/new.parquet")
        if is_replaced:
            manifest(s3, "clean/", "new.parquet")
        else:
            s3.delete_object(Bucket="data", Key="clean/_SUCCESS")
        return found

    monkeypatch.setattr(listing, "sources_of", changed_meanwhile)

    staged = stage("clean/", listing=listing)

    copy = f"{PREFIX}inputs/again/x/"
    assert staged.path == (f"s3://data/{copy}" if is_replaced else "s3://data/clean/")
    assert keys(s3, PREFIX) == ([f"{copy}00000-new.parquet"] if is_replaced else [])
    assert bool(listing.manifests) == is_replaced  # else no parent, and no output to be replaced


def test_an_object_that_is_replaced_before_it_is_copied_is_listed_as_it_is_then(
    s3: Any, stage: Callable[..., StagedInput]
) -> None:
    def copy_object(**given: Any) -> Any:
        """With a condition, which moto does not have."""
        source = given["CopySource"]
        s3.put_object(**source, Body=b"of others")
        now = s3.head_object(**source)["ETag"]
        if given.get("CopySourceIfMatch", now) != now:
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "CopyObject")
        return s3.copy_object(**given)

    put(s3, "raw/a/one.csv")
    replacing: Any = Instead(s3, copy_object=copy_object)

    staged = stage("raw/", of=BucketArea.at("s3://data/longhaul/work/", replacing, ATTEMPT))

    assert staged.etag == s3.head_object(Bucket="data", Key="raw/a/one.csv")["ETag"]


def test_a_stop_ends_the_copies(s3: Any, stage: Callable[..., StagedInput]) -> None:
    put(s3, "raw/a/one.csv")
    stop = Stop()

    def moved(_: int) -> None:
        stop.request(StopReason.TERMINATED, "SIGTERM")

    with pytest.raises(StopRequestedError):
        stage("raw/", moving=Moving(stop, advance=moved))


def test_a_file_of_one_machine_is_refused_with_its_reason(
    area: BucketArea, s3: Any, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("1")
    inputs = {"x": DataPath("file", "", str(tmp_path / "x.csv"))}

    with pytest.raises(PermanentJobError, match="on one machine, which a cluster does not reach"):
        area.stage(InputListing(s3, "data"), inputs, Moving(Stop()))


@pytest.mark.parametrize(
    ("key", "file"),
    [
        *((key, key) for key in ("a{b}", "a[1]", "x/[ab].csv", "a^b")),
        ("raw/", "raw/[x].csv"),
    ],
)
def test_a_path_or_file_that_means_something_else_to_hadoop_is_never_given_to_it(
    key: str, file: str
) -> None:
    assert not reads_alike(DataPath("s3", "data", key), [Source("data", file, 1)])


def test_what_spark_wrote_is_published_by_copies_and_under_the_attempts_name(
    s3: Any, area: BucketArea
) -> None:
    assert area.output == S3Folder("data", f"{PREFIX}output/")
    put(
        s3,
        f"{PREFIX}output/main/month=1/part-00000-{UUID}.c000.json",
        f"{PREFIX}output/main/_SUCCESS",
        f"{PREFIX}output/main/month=1_$folder$",
        f"{PREFIX}output/main/_temporary/0/part-00001-{UUID}.c000.json",
        f"{PREFIX}output/named-bad/part-00000-{UUID}.json",
    )
    s3.put_object(Bucket="data", Key=f"{PREFIX}output/named-bad/part-00001-{UUID}.json", Body=b"")
    went: list[int] = []
    uploader = Uploader(s3, "data", Moving(Stop(), advance=went.append))
    datasets = [Dataset(".", area.output / "main", 3), Dataset("bad", area.output / "named-bad", 1)]

    output = uploader.send(plan_of(s3, ATTEMPT, "s3://data/out/", datasets))

    assert keys(s3, "out/") == []  # pending: nothing is visible
    S3Publisher(s3, "data").publish(ATTEMPT)
    token = ATTEMPT.token
    assert keys(s3, "out/") == [
        "out/_SUCCESS",
        f"out/bad/part-00000-{UUID}-{token}.json",
        f"out/bad/part-00001-{UUID}-{token}.json",
        f"out/month=1/part-00000-{UUID}-{token}.c000.json",
    ]
    published = s3.get_object(
        Bucket="data", Key=f"out/month=1/part-00000-{UUID}-{token}.c000.json"
    )["Body"].read()
    assert published.decode() == f"{PREFIX}output/main/month=1/part-00000-{UUID}.c000.json"
    assert sum(went) == output.size_bytes


def test_a_large_object_is_copied_in_parts_that_cover_it_once() -> None:
    size = 300 * 1024 * 1024 + 7
    ranges = []

    class Client:
        def upload_part_copy(self, **call: Any) -> dict[str, Any]:
            ranges.append(
                tuple(map(int, call["CopySourceRange"].removeprefix("bytes=").split("-")))
            )
            return {"CopyPartResult": {"ETag": str(call["PartNumber"]), "ChecksumCRC32": "sum"}}

    file = S3File("x", ".", size, "data", "key")
    client: Any = Client()
    done = [
        file.put_part(client, "data", "out/x", Upload(path="x", upload_id="u", size=size), n + 1)
        for n in range(3)
    ]

    assert file.part_count == 3
    assert ranges[0][0] == 0
    assert [start for start, _ in ranges[1:]] == [end + 1 for _, end in ranges[:-1]]
    assert ranges[-1][1] == size - 1
    assert sum(moved for _, moved in done) == size
    assert [(part.n, part.etag, part.crc32) for part, _ in done] == [
        (n, str(n), "sum") for n in (1, 2, 3)
    ]


def test_a_script_that_wrote_nothing_has_no_output(s3: Any, area: BucketArea) -> None:
    with pytest.raises(NoOutputError):
        plan_of(s3, ATTEMPT, "s3://data/out/", [Dataset(".", area.output / "main")])


def test_only_this_attempts_work_area_is_cleared(s3: Any, area: BucketArea) -> None:
    put(s3, f"{PREFIX}output/main/a", f"{PREFIX}inputs/first/x/b", "longhaul/work/other/1-1/c")

    area.clear()
    area.clear()

    assert keys(s3) == ["longhaul/work/other/1-1/c"]


def test_the_scheme_says_which_work_area_it_is(s3: Any, tmp_path: Path) -> None:
    disk = DiskArea(s3, tmp_path, {})

    assert area_at("file:", s3, ATTEMPT, disk) is disk
    in_bucket = area_at("s3://data/longhaul/work/", s3, ATTEMPT, disk)
    assert in_bucket.output.as_uri() == f"s3://data/{PREFIX}output/"
    assert files_of(s3, Dataset(".", in_bucket.output), "T") == []
