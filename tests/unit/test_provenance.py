"""What an output says of where it comes from, in a manifest and in a table's snapshot."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from longhaul.core.lease import AttemptId
from longhaul.core.places import InputPath, input_of
from longhaul.core.settings import Mode
from longhaul.outputs.lineage import (
    ATTEMPT,
    INPUTS,
    JOB,
    LEFT_OUT,
    MAX_INPUTS,
    MAX_PROPERTY_CHARS,
    RESULTS,
    RUN,
    InputRead,
    Origin,
    Writer,
    marks,
    origin,
    origin_in,
    results_in,
)
from longhaul.outputs.manifest import Manifest, ManifestFile, PendingOutput, merged
from longhaul.runner.inputs import Inputs
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.staged import StagedInput

AT = datetime(2026, 10, 7, 5, tzinfo=UTC)
RUN_AT = 1767323045000
ATTEMPT_ID = AttemptId("main#daily/1", RUN_AT, 2)


def read(n: int = 0, path: str = "s3://data/raw/") -> InputRead:
    return InputRead(name=f"i{n}", path=path, files=3, size_bytes=99, digest="ab12")


def test_a_snapshot_says_what_a_manifest_says() -> None:
    writer = Writer(place="table://lake/raw", key="clean#a/1", run=7, attempt=1)
    whole = origin(
        ATTEMPT_ID,
        AT,
        [read(), read(1).model_copy(update={"snapshot": 4711, "writers": (writer,)})],
    )

    found = marks(whole, {"value": {"days": 7}, "rows": {".": 3}, "metrics": {"bad": 1}})

    assert origin_in({JOB: ATTEMPT_ID.key, **found}) == whole
    results = results_in(found)
    assert (results.value, results.rows, results.metrics) == ({"days": 7}, {".": 3}, {"bad": 1})


def test_as_many_inputs_are_named_as_there_is_room_for_and_the_others_are_counted() -> None:
    many = origin(ATTEMPT_ID, AT, [read(n) for n in range(5_000)])
    assert (len(many.inputs), many.left_out) == (MAX_INPUTS, 5_000 - MAX_INPUTS)

    long = origin(ATTEMPT_ID, AT, [read(n, f"s3://data/{'x' * 2_000}/") for n in range(50)])
    assert 5 < len(long.inputs) < 10
    assert long.left_out == 50 - len(long.inputs)

    found = marks(many, {"value": "x" * 5_000})
    assert all(len(text) <= MAX_PROPERTY_CHARS for text in found.values())
    named = json.loads(found[INPUTS])
    assert int(found[LEFT_OUT]) == 5_000 - len(named)
    assert RESULTS not in found


@pytest.mark.parametrize(
    "summary",
    [
        {},
        {JOB: "main#a"},
        {JOB: "main#a", RUN: "x", ATTEMPT: "1"},
        {JOB: "main#a", RUN: "1", ATTEMPT: "1", INPUTS: "{"},
        {JOB: "main#a", RUN: "1", ATTEMPT: "1", INPUTS: "[" * 100_000},
        {JOB: "main#a", RUN: "-1", ATTEMPT: "1"},
        {JOB: "main#a", RUN: "1", ATTEMPT: "1", INPUTS: '[{"name": 1}]'},
    ],
)
def test_a_summary_that_others_wrote_says_nothing(summary: dict[str, str]) -> None:
    assert origin_in(summary) is None


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "[" * 100_000])
def test_results_that_others_wrote_are_none(text: str) -> None:
    assert not results_in({RESULTS: text})


def publish(number: int, current: Manifest | None, mode: Mode = "append") -> Manifest:
    attempt = AttemptId(f"main#job-{number}", RUN_AT, 1)
    replaced = current if mode == "overwrite" else None
    return merged(
        PendingOutput(
            token=attempt.token,
            prefix="s3://data/out/",
            mode=mode,
            replaces=tuple(file.path for file in replaced.files) if replaced else (),
            manifest=Manifest(
                key=attempt.key,
                run=RUN_AT,
                attempt=1,
                files=(ManifestFile(path=f"day=1/part-{attempt.token}.csv", size=1),),
                origins=(origin(attempt, AT, [read(number)]),),
            ),
        ),
        current,
    )


def origins(manifest: Manifest) -> list[str]:
    return [each.key for each in manifest.origins]


def test_an_output_names_each_attempt_whose_files_are_in_it() -> None:
    first = publish(1, None)
    both = publish(2, first)
    assert origins(both) == ["main#job-1", "main#job-2"]

    assert origins(publish(3, both, "overwrite")) == ["main#job-3"]
    # An overwrite that saw the first keeps what came after.
    late = PendingOutput.model_validate(
        {
            "token": AttemptId("main#late", 1, 1).token,
            "prefix": "s3://data/out/",
            "replaces": [file.path for file in first.files],
            "manifest": Manifest(
                key="main#late",
                run=1,
                attempt=1,
                files=(),
                origins=(Origin(key="main#late", run=1, attempt=1),),
            ),
        }
    )
    assert origins(merged(late, both)) == ["main#job-2", "main#late"]


# Which outputs of jobs an input was, as the manifests that were followed say.


def listing_of(*places: str) -> InputListing:
    listing = InputListing(None, "data")  # type: ignore[arg-type]  # nothing is listed
    for n, place in enumerate(places):
        listing.manifests[place] = Manifest(key=f"main#job-{n}", run=1, attempt=1, files=())
    return listing


def writers_of(text: str, listing: InputListing, etag: str = "") -> list[str]:
    inputs: dict[str, InputPath] = {"a": input_of(text)}
    staged = {"a": StagedInput("path", 1, 1, frozenset(), digest="ab12", etag=etag)}
    (read,) = Inputs(inputs, staged, listing).reads()
    return [each.key for each in read.writers]


NEAR = ("s3://data/out/", "s3://data/out/day=1/", "s3://data/other/")
BELOW = ("s3://data/clean/m1/", "s3://data/clean/m2/", "s3://data/cleaner/")
ALIKE = ("s3://data/a-1/", "s3://data/a-2/", "s3://data/b-1/")


@pytest.mark.parametrize(
    ("places", "text", "etag", "found"),
    [
        # The nearest output around it.
        (NEAR, "s3://data/out/day=1/", "", [1]),
        (NEAR, "s3://data/out/day=2/", "", [0]),
        (NEAR, "s3://data/outer/", "", []),
        (NEAR, "s3://data/out", "", [0]),
        (NEAR, "s3://data/raw/a.csv", "", []),
        # The outputs below it.
        (BELOW, "s3://data/clean", "", [0, 1]),
        # An object that is named by itself is of no output.
        (NEAR, "s3://data/out/_notes.csv", "e", []),
        # A glob is of each output that it matches, and of ten at most.
        (ALIKE, "s3://data/a-*/", "", [0, 1]),
        (ALIKE, "s3://data/a-1/day=*/", "", [0]),
        ([f"s3://data/a-{n:02}/" for n in range(20)], "s3://data/a-*/", "", list(range(10))),
    ],
)
def test_the_outputs_around_or_below_an_input_are_its_writers(
    places: Sequence[str], text: str, etag: str, found: list[int]
) -> None:
    assert writers_of(text, listing_of(*places), etag) == [f"main#job-{n}" for n in found]
