"""What a stage's limits let a request ask for."""

from typing import Any

import pytest

from longhaul.core.errors import InvalidRequestError
from longhaul.core.policy import parse_request
from longhaul.core.settings import PathPolicy, RequestLimits, RuntimeSettings
from tests.builders import BUCKET, body, settings, stage

CODE = "s3://their-code/production/"


def allowing(**limits: Any) -> RuntimeSettings:
    return settings(
        stages=(stage(limits=RequestLimits(**limits)),),
        paths=PathPolicy(data_bucket=BUCKET, input_buckets=("landing",), job_prefixes=(CODE,)),
    )


def problems_of(known: RuntimeSettings, **asked: Any) -> list[str]:
    try:
        parse_request(body(**asked), known, known.stages[0])
    except InvalidRequestError as error:
        return error.problems
    return []


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


def test_a_path_cannot_leave_its_prefix() -> None:
    known = allowing(output_prefixes=(f"s3://{BUCKET}/clean/",))
    (problem,) = problems_of(known, output=f"s3://{BUCKET}/clean/../raw/")
    assert problem == "output: must not contain '.' or '..' segments"


def test_what_a_request_leaves_out_is_not_judged() -> None:
    # The defaults of a stage are checked at synth. For the seconds of a deploy, new code may have
    # the old settings, with a timeout above the new default of the ceiling.
    known = settings(stages=(stage(timeout_s=604_800, size="xlarge", max_attempts=50),))
    assert problems_of(known) == []
