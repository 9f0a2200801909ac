"""What a stage's limits let a request ask for."""

from typing import Any

import pytest

from longhaul.core.errors import InvalidRequestError
from longhaul.core.policy import check_policy
from longhaul.core.request import JobRequest
from longhaul.core.settings import PathPolicy, RequestLimits, RuntimeSettings
from tests.builders import BODY, BUCKET, problems_of, settings, stage

CODE = "s3://their-code/production/"


def allowing(**limits: Any) -> RuntimeSettings:
    return settings(
        stages=(stage(limits=RequestLimits(**limits)),),
        paths=PathPolicy(data_bucket=BUCKET, input_buckets=("landing",), job_prefixes=(CODE,)),
    )


def test_a_stall_timeout_has_room_for_late_reports() -> None:
    assert problems_of(settings(), stall_timeout="40s") == []
    assert problems_of(settings(), stall_timeout="39s") == [
        "stall_timeout: 39s is too short for a job that reports every 5 s; at least 40s"
    ]


def test_without_settings_one_message_cannot_hold_a_slot_for_weeks() -> None:
    limits = RequestLimits()
    assert limits.max_attempts * limits.max_timeout_s <= 10 * 86_400
    assert problems_of(settings(), timeout="7d", max_attempts=100) == [
        "timeout: 7d is above the ceiling of stage main, 1d (limits.max_timeout_s)",
        "max_attempts: 100 is above the ceiling of stage main, 10 (limits.max_attempts)",
    ]


@pytest.mark.parametrize(
    ("limits", "at_most", "too_much", "problem"),
    [
        (
            {"max_size": "medium"},
            {"size": "medium"},
            {"size": "large"},
            "size: large is above the ceiling of stage main, medium (limits.max_size)",
        ),
        (
            {"max_timeout_s": 5_400},
            {"timeout": "90m"},
            {"timeout": "5401s"},
            "timeout: 1h30m1s is above the ceiling of stage main, 1h30m (limits.max_timeout_s)",
        ),
        (
            {"max_stall_timeout_s": 600},
            {"stall_timeout": "10m"},
            {"stall_timeout": "11m"},
            (
                "stall_timeout: 11m is above the ceiling of stage main, 10m "
                "(limits.max_stall_timeout_s)"
            ),
        ),
        (
            {"max_attempts": 2},
            {"max_attempts": 2},
            {"max_attempts": 3},
            "max_attempts: 3 is above the ceiling of stage main, 2 (limits.max_attempts)",
        ),
        (
            {"jobs": ("flights_clean",)},
            {"job": "flights_clean"},
            {"job": "sql"},
            "job: stage main runs only flights_clean (limits.jobs)",
        ),
        (
            {"jobs": ("flights_clean", f"{CODE}nightly/")},
            {"job": f"{CODE}nightly/report.py"},
            {"job": f"{CODE}other/report.py"},
            f"job: stage main runs only flights_clean, {CODE}nightly/ (limits.jobs)",
        ),
        (
            {"input_prefixes": ("s3://landing/a/", "s3://landing/b/")},
            {"inputs": {"flights": "s3://landing/b/2013-*.csv"}},
            {"inputs": {"flights": "s3://landing/*/2013.csv"}},
            (
                "inputs.flights: stage main reads only below s3://landing/a/, s3://landing/b/ "
                "(limits.input_prefixes)"
            ),
        ),
        (
            {"output_prefixes": (f"s3://{BUCKET}/clean/",)},
            {"output": f"s3://{BUCKET}/clean"},
            {"output": f"s3://{BUCKET}/cleaner/"},
            f"output: stage main writes only below s3://{BUCKET}/clean/ (limits.output_prefixes)",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_request_may_ask_for_as_much_as_the_limit_and_no_more(
    limits: dict[str, Any], at_most: dict[str, Any], too_much: dict[str, Any], problem: str
) -> None:
    known = allowing(**limits)
    assert problems_of(known, **at_most) == []
    assert problems_of(known, **too_much) == [problem]


def test_request_without_a_job_is_refused_where_the_stage_has_no_default() -> None:
    assert problems_of(settings(), job=None) == [
        "job: is missing, and stage main has no default; known: daily_delays, flights_clean, sql"
    ]
    assert problems_of(settings(stages=(stage(job="sql"),)), job=None) == []


def test_what_a_request_leaves_out_is_not_judged() -> None:
    # The defaults of a stage are checked at synth. For the seconds of a deploy, new code may have
    # the old settings, with a timeout above the new default of the ceiling.
    known = settings(stages=(stage(timeout_s=604_800, size="xlarge", max_attempts=50),))
    assert problems_of(known) == []


# Where an output must not go: `longhaul.core.policy`, as the policy applies it.


S3 = f"s3://{BUCKET}/"
CODE_AREAS = f"{S3}team/jobs/"


def problems(output: str, *inputs: str, code: tuple[str, ...] = ()) -> list[str]:
    request = JobRequest.model_validate(
        BODY | {"output": output, "inputs": {f"in{n}": each for n, each in enumerate(inputs)}}
    )
    return refused(request, PathPolicy(data_bucket=BUCKET, job_prefixes=code, allow_file=True))


def refused(request: JobRequest, paths: PathPolicy) -> list[str]:
    allowed = settings(paths=paths)
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
    return refused(request, PathPolicy(data_bucket=BUCKET, table_databases=("lake", "pond")))


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
    assert problems(S3 + output, code=(CODE_AREAS,)) == [
        f"output: the code of jobs is in {CODE_AREAS}: name an output elsewhere"
    ]
    assert problems(S3 + output) == []


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
