"""`longhaul verify`: where the probes go, and whether what happened is what was expected."""

import json
from typing import Any

import pytest

from longhaul.cli.acceptance.cases import CASES, ON_EMR, TABLE, Case, body, cases_of, stage_for
from longhaul.cli.acceptance.run import Result, Trial, judged
from longhaul.cli.errors import CommandError
from longhaul.core.errors import InvalidRequestError
from longhaul.core.lease import State
from longhaul.core.policy import parse_request
from longhaul.core.settings import EmrApplication, PathPolicy, RequestLimits, RuntimeSettings, Stage
from tests.builders import BUCKET, NOW, running, settings, stage

EMR = EmrApplication(
    application_arn="arn:aws:emr-serverless:us-east-1:123456789012:/applications/00f1",
    work_area=f"s3://{BUCKET}/longhaul/work/",
)


def deployed(*stages: Stage) -> RuntimeSettings:
    paths = PathPolicy(data_bucket=BUCKET, table_databases=("longhaul",))
    return settings(
        jobs=("probe", "sql"), stages=stages or (stage(),), paths=paths, emr_serverless=EMR
    )


def test_what_a_stack_does_not_have_is_not_tried() -> None:
    assert cases_of(deployed()) == [*CASES, TABLE, ON_EMR]
    assert cases_of(settings()) == [*CASES]


def test_probes_go_to_the_first_stage_that_leads_nowhere() -> None:
    found = deployed(stage(name="a", next=("b",)), stage(name="b", job="sql"))
    assert stage_for(found, None).name == "b"


@pytest.mark.parametrize(
    "stages",
    [
        (stage(name="a", retired=True),),
        (stage(name="a", next=("b",)), stage(name="b", job="sql", join=True)),
        (stage(name="a", limits=RequestLimits(jobs=("sql",))),),
    ],
)
def test_without_such_a_stage_the_way_out_is_named(stages: tuple[Stage, ...]) -> None:
    for name in (None, "a"):
        with pytest.raises(CommandError, match=r"takes probes: .*add one to the settings"):
            stage_for(deployed(*stages), name)


@pytest.mark.parametrize("case", [*CASES, TABLE, ON_EMR], ids=lambda case: case.name)
def test_the_dispatcher_takes_every_body_but_the_invalid_one(case: Case) -> None:
    known = deployed()
    text = body(case, "verify-1", known)
    assert json.loads(text)["job_id"] == "verify-1"
    if case.is_request:
        assert parse_request(text, known, known.stages[0]).job == "probe"
    else:
        with pytest.raises(InvalidRequestError):
            parse_request(text, known, known.stages[0])


BY_NAME = {case.name: case for case in CASES}


def result(
    case: str, row: dict[str, Any] | None, *letters: str, is_late: bool = False, output: bool = True
) -> Result:
    lease = None if row is None else running(**row)
    trial = Trial(BY_NAME[case], "verify-1", NOW, row=lease, is_late=is_late)
    return judged(trial, letters, has_output=output)


@pytest.mark.parametrize(
    ("case", "row", "letters", "output"),
    [
        ("success", {"state": State.SUCCEEDED}, (), True),
        ("failure", {"state": State.SUCCEEDED, "attempt": 2, "failures": 1}, (), True),
        ("refusal", {"state": State.DEAD, "failures": 1}, ("permanent",), False),
        (
            "invalid",
            {"state": State.DEAD, "attempt": 0, "execution_input": ""},
            ("invalid_request",),
            False,
        ),
        ("cancel", {"state": State.CANCELLED}, (), False),
        ("stopped-task", {"state": State.SUCCEEDED, "attempt": 2, "interruptions": 1}, (), True),
    ],
)
def test_only_the_expected_ending_has_passed(
    case: str, row: dict[str, Any], letters: tuple[str, ...], *, output: bool
) -> None:
    found = result(case, row, *letters, output=output)
    assert (found.is_good, found.happened) == (True, found.expected)
    for other in (
        result(case, row, *letters, output=not output),
        result(case, row, *letters, "failed", output=output),
        result(case, None, *letters, output=output),
        result(case, {**row, "attempt": 3}, *letters, output=output),
        result(case, row, *letters, is_late=True, output=output),
    ):
        assert (other.is_good, other.verdict) == (False, "failed")
        assert "longhaul status verify-1 --history" in other.do


def test_a_failure_shows_the_reason_of_the_row() -> None:
    row = {"state": State.SUCCEEDED, "attempt": 2}
    found = result("success", {**row, "last_class": "interrupted", "last_error": "Spot"})
    assert found.happened == "SUCCEEDED, 2 attempts, output (interrupted: Spot)"
