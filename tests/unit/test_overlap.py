"""Where an output must not go: `longhaul.core.policy`, as the policy applies it."""

import pytest

from longhaul.core.errors import InvalidRequestError
from longhaul.core.policy import check_policy
from longhaul.core.request import JobRequest
from longhaul.core.settings import PathPolicy
from tests.builders import BODY, BUCKET, settings

S3 = f"s3://{BUCKET}/"
CODE = f"{S3}team/jobs/"


def problems(output: str, *inputs: str, code: tuple[str, ...] = ()) -> list[str]:
    request = JobRequest.model_validate(
        BODY | {"output": output, "inputs": {f"in{n}": each for n, each in enumerate(inputs)}}
    )
    allowed = settings(paths=PathPolicy(data_bucket=BUCKET, job_prefixes=code, allow_file=True))
    try:
        check_policy(request, allowed, allowed.stages[0])
    except InvalidRequestError as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    ("input_", "output"),
    [
        ("raw/", "raw/clean/"),
        ("raw", "raw/clean"),
        ("raw/", "raw/a/b/c/"),
        ("", "clean/"),
        ("raw/*/", "raw/2013/"),
        ("raw/*", "raw/2013/clean/"),
        ("r*", "raw/clean/"),
        ("r*/2013", "raw/2013/"),
    ],
)
def test_output_inside_an_input_is_refused(input_: str, output: str) -> None:
    (found,) = problems(S3 + output, S3 + input_)
    assert found.startswith("output: is inside the input in0, so the next run would read it")


@pytest.mark.parametrize(
    ("input_", "output"),
    [
        ("out/raw.csv", "out/"),
        ("out/raw/", "out"),
        ("out/*.csv", "out/"),
        ("out/a/*/b.csv", "out/a"),
        ("o*/raw.csv", "out/"),
    ],
)
def test_input_inside_the_output_is_refused(input_: str, output: str) -> None:
    assert problems(S3 + output, S3 + input_) == [
        "inputs.in0: is inside the output, which would replace or hide it: name an output beside it"
    ]


@pytest.mark.parametrize(
    ("input_", "output"),
    [
        ("out/", "out/"),  # a compaction
        ("out", "out/"),
        ("raw/", "clean/"),
        ("raw/", "raw-clean/"),
        ("raw/*.csv", "raw/clean/"),
        ("raw/20*/", "raw/clean/"),
        ("out/2012/", "out/2013/"),
        ("out-2012.csv", "out/"),
    ],
)
def test_inputs_beside_the_output_and_the_output_itself_are_allowed(
    input_: str, output: str
) -> None:
    assert problems(S3 + output, S3 + input_) == []


def test_each_input_that_overlaps_has_its_sentence() -> None:
    found = problems(f"{S3}a/b/", f"{S3}a/", f"{S3}a/b/c/", f"{S3}other/", "file:///a/b/")
    assert [each.partition(":")[0] for each in found] == ["output", "inputs.in1"]
    assert "in0" in found[0]


def of_outputs(main: str, *others: str, **changes: object) -> list[str]:
    named = {f"out{n}": each for n, each in enumerate(others)}
    request = JobRequest.model_validate(BODY | {"output": main, "outputs": named, **changes})
    paths = PathPolicy(data_bucket=BUCKET, table_databases=("lake", "pond"))
    allowed = settings(paths=paths)
    try:
        check_policy(request, allowed, allowed.stages[0])
    except InvalidRequestError as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    ("main", "other"),
    [
        (f"{S3}out/", f"{S3}out"),
        (f"{S3}out/", f"{S3}out/report/"),
        (f"{S3}out/report/", f"{S3}out/"),
        ("table://lake/daily", "table://lake/daily"),
        ("table://lake/daily", "table://lake/daily__report"),
        ("table://lake/daily__report", "table://lake/daily"),
    ],
)
def test_an_output_inside_another_is_refused(main: str, other: str) -> None:
    assert of_outputs(main, other) == [
        "outputs.out0: is where output is, or inside of it: name outputs beside each other"
    ]


def test_outputs_beside_each_other_are_allowed() -> None:
    tables = ("table://lake/daily_more", "table://pond/daily")
    assert of_outputs("table://lake/daily", *tables, f"{S3}out/", f"{S3}output/") == []


def test_a_further_output_that_overlaps_an_input_is_named() -> None:
    inputs = {"a": f"{S3}raw/", "b": f"{S3}out/b.csv"}
    inside, around = of_outputs(f"{S3}main/", f"{S3}raw/x/", f"{S3}out/", inputs=inputs)
    assert inside.startswith("outputs.out0: is inside the input a, so the next run would read it")
    assert around.startswith("inputs.b: is inside the output out1, which would replace or hide it")


def test_partitions_are_overwritten_where_one_output_is_a_table() -> None:
    mode = "overwrite_partitions"
    assert of_outputs(f"{S3}out/", "table://lake/daily", mode=mode) == []
    assert of_outputs(f"{S3}out/", f"{S3}other/", mode=mode) == [
        "mode: overwrite_partitions is for an output table://DATABASE/NAME"
    ]


@pytest.mark.parametrize("output", ["team/jobs/", "team/jobs/mine/", "team/"])
def test_output_where_code_comes_from_is_refused(output: str) -> None:
    assert problems(S3 + output, code=(CODE,)) == [
        f"output: the code of jobs is in {CODE}: name an output elsewhere"
    ]
    assert problems(S3 + output) == []


@pytest.mark.parametrize("output", ["longhaul/", "longhaul/requests/x/"])
def test_output_in_our_own_prefix_is_refused(output: str) -> None:
    (found,) = problems(S3 + output)
    assert found == "output: longhaul/ in the data bucket is Longhaul's own"


@pytest.mark.parametrize("output", ["", "/"])
def test_output_at_the_buckets_root_is_refused(output: str) -> None:
    assert len(problems(S3 + output)) == 1


@pytest.mark.parametrize(
    "character", ["\n", "\r", "\x00", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff"]
)
def test_control_characters_in_a_path_are_refused(character: str) -> None:
    assert problems(f"{S3}out/a{character}b/", f"{S3}raw/a{character}b") == [
        "inputs.in0: has control characters",
        "output: has control characters",
    ]


def test_escaped_control_characters_of_a_file_are_refused() -> None:
    assert problems(f"{S3}out/", "file:///raw/a%0Ab") == ["inputs.in0: has control characters"]


def test_only_so_many_inputs_may_be_globs() -> None:
    globs = [f"{S3}raw/{n}*/" for n in range(101)]
    assert problems(f"{S3}out/", *globs[:100], f"{S3}raw/plain/") == []
    assert problems(f"{S3}out/", *globs) == [
        "inputs: 101 globs, at most 100: name prefixes or objects instead"
    ]
