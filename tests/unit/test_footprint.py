"""Which texts of JSON a function of 1 GB reads: all that a job can make, and no bomb."""

import json
import tracemalloc

import pytest

from longhaul.core.lease import AttemptId
from longhaul.core.objects import (
    MAX_BYTES,
    MAX_DECODED_BYTES,
    MAX_FOOTPRINT,
    footprint,
    is_readable,
)
from longhaul.outputs.manifest import (
    MAX_FILES,
    Manifest,
    ManifestFile,
    Part,
    PendingOutput,
    Upload,
)

TOKEN = AttemptId("main#a", 1767323045000, 1).token


def the_list(files: int) -> bytes:
    """The list of an overwrite of as many files, each in a partition."""
    paths = [f"day=2026-01-31/part-{n:05}-{TOKEN}.c000.snappy.parquet" for n in range(files)]
    part = Part(n=1, etag='"' + "e" * 32 + '"', crc32="abcdef==")
    pending = PendingOutput(
        token=TOKEN,
        prefix="s3://data/out/",
        replaces=tuple(paths),
        uploads=tuple(
            Upload(path=path, upload_id="u" * 128, size=2**20, parts=(part,)) for path in paths
        ),
        manifest=Manifest(
            key="main#a",
            run=1767323045000,
            attempt=1,
            files=tuple(ManifestFile(path=path, size=2**20) for path in paths),
        ),
    )
    return pending.model_dump_json().encode()


def test_the_list_of_the_largest_output_is_read() -> None:
    share = 100
    text = the_list(MAX_FILES // share)

    assert footprint(text) * share < MAX_FOOTPRINT
    assert len(text) * share < MAX_BYTES


@pytest.mark.parametrize("item", ["{}", '""', "[0]", '{"a":1}', "1"])
def test_a_text_that_its_tree_makes_many_times_larger_is_not_read(item: str) -> None:
    listed = f"{item},".encode()
    text = b'{"published":[' + listed * (MAX_BYTES // 4 // len(listed)) + item.encode() + b"]}"
    json.loads(text[:14] + listed + item.encode() + b"]}")

    assert len(text) <= MAX_BYTES / 3
    assert not is_readable(text)


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("last", ["", "\n", "é", "\u0142", "\U0001f600"])
def test_the_longest_text_fits_into_a_function_whatever_its_widest_character(
    last: str, *, escaped: bool
) -> None:
    text = json.dumps([{"key": "x" * 2**18 + last}], ensure_ascii=escaped).encode()

    tracemalloc.start()
    try:
        json.loads(text.decode())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    taken = (len(text) + peak) / len(text) * MAX_DECODED_BYTES
    assert taken < MAX_FOOTPRINT


WIDE = "\U0001f600".encode()


@pytest.mark.parametrize(
    # Only the first takes a look at the whole text.
    ("first", "last"),
    [(b"", WIDE), (rb"\ud83d\ude00", b""), (rb"\uD83D\uDE00", b"")],
)
def test_a_long_text_with_one_wide_character_is_not_read(first: bytes, last: bytes) -> None:
    is_read = is_readable(b'"' + first + b"x" * (MAX_BYTES - 20) + last + b'"')
    assert not is_read
