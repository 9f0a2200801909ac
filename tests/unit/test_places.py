"""What a path may be, what a manifest vouches for, and what a reason may quote."""

import pytest

from longhaul.core.lease import AttemptId
from longhaul.core.places import DataPath, has_controls, parse_input, parse_job, parse_output
from longhaul.core.request import name_of
from longhaul.core.settings import PathPolicy
from longhaul.outputs.manifest import (
    Manifest,
    ManifestFile,
    PendingOutput,
    Upload,
    is_of_earlier_run,
    merged,
)
from longhaul.outputs.manifest import carries_token as has_token

POLICY = PathPolicy(
    data_bucket="data", input_buckets=("landing",), output_buckets=("lake",), allow_file=True
)
RUN = 1767323045000
TOKEN = AttemptId("main#a", RUN, 2).token


@pytest.mark.parametrize("character", ["\x00", "\u200b", "\ud800", "\u2028", "\u2029"])
def test_character_that_shows_a_line_as_something_else_is_a_control(character: str) -> None:
    assert has_controls(f"a{character}b")
    assert not has_controls("aä b")


@pytest.mark.parametrize("bucket", ["data", "landing", "lake"])
def test_inputs_come_from_the_data_the_input_and_the_output_buckets(bucket: str) -> None:
    assert parse_input(f"s3://{bucket}/a/b", POLICY) == DataPath("s3", bucket, "a/b")


def test_outputs_go_to_the_data_and_the_output_buckets() -> None:
    assert str(parse_output("s3://data/a", POLICY)) == "s3://data/a/"
    assert str(parse_output("s3://lake/a", POLICY)) == "s3://lake/a/"
    with pytest.raises(ValueError, match="not allowed; allowed: data, lake"):
        parse_output("s3://landing/a", POLICY)
    policy = POLICY.model_copy(update={"table_databases": ("db",)})
    with pytest.raises(ValueError, match="tables are there"):
        parse_output("s3://data/tables/db/a", policy)
    assert str(parse_output("s3://lake/tables/db/a", policy)) == "s3://lake/tables/db/a/"


@pytest.mark.parametrize(
    "key", ["tables/db/a/data/", "tables/db", "tables/*/a/", "t*/d?/a/data/*", "tables/", ""]
)
def test_files_of_tables_are_no_input(key: str) -> None:
    policy = POLICY.model_copy(update={"table_databases": ("db",)})

    with pytest.raises(ValueError, match="tables are there"):
        parse_input(f"s3://data/{key}", policy)
    assert parse_input(f"s3://data/{key}", POLICY).key == key
    assert parse_input("s3://data/tables/other/", policy).key == "tables/other/"
    assert parse_input("s3://landing/tables/db/", policy).key == "tables/db/"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("s3:data/a", "must be s3://bucket"),
        ("http:///etc/passwd", "must be s3://bucket"),
        ("file://rows.csv", "a file: path is absolute: file:///…"),
        ("file", "must be s3://bucket"),
        ("s3://data/a/./b", "segments"),
        ("s3://data/a/../b", "segments"),
        ("s3://data/a//b", "empty segments"),
        ("s3://data/longhaul/requests", "Longhaul's own$"),
        ("s3://data/?onghaul/requests/*", "Longhaul's own: begin the glob with a prefix"),
        ("s3://data/*/requests/*", "Longhaul's own: begin the glob with a prefix"),
        ("s3://data/[k-m]onghaul", "Longhaul's own: begin the glob with a prefix"),
        (f"s3://data/{'x' * 769}", "longer than 768 bytes"),
        (f"s3://data/{'ä' * 385}", "longer than 768 bytes"),
    ],
)
def test_malformed_or_escaping_path_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_input(text, POLICY)


@pytest.mark.parametrize("character", "*?[")
def test_output_and_code_are_one_place_each_and_no_pattern(character: str) -> None:
    policy = PathPolicy(data_bucket="data", job_prefixes=("s3://data/jobs/",))

    with pytest.raises(ValueError, match="no glob characters"):
        parse_output(f"s3://data/a{character}/", policy)
    with pytest.raises(ValueError, match="one Python file"):
        parse_job(f"s3://data/jobs/a{character}.py", policy)


def test_only_the_data_bucket_has_a_prefix_of_ours() -> None:
    assert parse_input("s3://lake/longhaul/x", POLICY).key == "longhaul/x"
    assert parse_input("s3://lake/*/x", POLICY).key == "*/x"
    assert parse_input("s3://data/long*-x/", POLICY).key == "long*-x/"
    assert str(parse_input("file:///longhaul/x", POLICY)) == "file:///longhaul/x"
    assert len(parse_input(f"s3://data/{'x' * 768}", POLICY).key) == 768


@pytest.mark.parametrize(
    ("path", "carries"),
    [
        (f"part-0-{TOKEN}.parquet", True),
        (f"day=1/part-0-{TOKEN}.parquet", True),
        (f"README-{TOKEN}", True),
        # The version before put it in a UUID's place.
        (f"part-0-{TOKEN}-c000.zstd.parquet", True),
        (f"{TOKEN}.wav", True),
        (f"{TOKEN}/part-0.parquet", False),  # the folder's name is not the file's
        (f"{TOKEN}/x/part-0.parquet", False),
        ("part-0.parquet", False),
        ("00000000000000012345-2024-01.csv", False),
        (f"0{TOKEN}.csv", False),
        (f"{TOKEN}th.csv", False),
    ],
)
def test_file_of_ours_has_a_token_in_its_own_name(path: str, *, carries: bool) -> None:
    assert has_token(path) is carries


def manifest(attempt: int, *paths: str, published: tuple[str, ...] = ()) -> Manifest:
    files = tuple(ManifestFile(path=path, size=1) for path in paths)
    return Manifest(key="main#a", run=5, attempt=attempt, files=files, published=published)


def test_manifest_tells_of_its_publisher_and_of_those_before_it() -> None:
    ours = manifest(2, published=("earlier",))

    assert ours.tells_of(ours.token)
    assert ours.tells_of("earlier")
    assert not ours.tells_of("later")
    assert ours.token.endswith("-5-2")


def test_publication_is_remembered_with_the_last_thousand_before_it() -> None:
    before = manifest(1, published=tuple(str(n) for n in range(1_000)))
    pending = PendingOutput(
        token="ours", prefix="s3://data/a/", uploads=(), manifest=manifest(2, "b")
    )

    after = merged(pending, before)

    assert len(after.published) == 1_000
    assert (after.published[0], after.published[-1]) == ("1", "ours")


def test_a_publication_counts_as_done_while_its_files_are_there() -> None:
    ours = AttemptId("main#a", 1767323045000, 1).token
    others = tuple(str(n) for n in range(1_000))

    assert manifest(2, f"day=1/part-0-{ours}.parquet", published=others).tells_of(ours)
    assert not manifest(2, f"day=1/part-0-{ours}1.parquet", published=others).tells_of(ours)


def test_a_file_is_of_the_attempt_whose_token_its_name_has_last() -> None:
    first, again = (AttemptId("main#a", 1767323045000 + run, 1).token for run in range(2))
    ours = AttemptId("main#b", 1767323045000, 1).token

    kept = manifest(2, f"photo-{first}-{ours}.jpg")
    assert kept.tells_of(ours)
    assert not kept.tells_of(first)
    assert not is_of_earlier_run(kept.files[0].path, again)


@pytest.mark.parametrize("path", ["/a", "a/../b", "a//b", ".", "a\nb"])
def test_upload_stays_below_its_output(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        Upload(path=path, upload_id="u", size=1)


def test_name_is_quoted_whole_up_to_24_characters() -> None:
    assert name_of("x" * 24) == "x" * 24
    assert name_of("x" * 25) == "x" * 24 + "…"
    assert name_of("a\nb") == "a\\nb"
