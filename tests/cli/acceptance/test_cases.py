"""Where the probes go, and what is said where they cannot."""

import json

import pytest

from longhaul.cli.acceptance.cases import CASES, ON_EMR, TABLE, Case, body, cases_of, stage_for
from longhaul.cli.errors import CommandError
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.policy import parse_request
from longhaul.settings import EmrApplication, PathPolicy, RequestLimits, RuntimeSettings, Stage
from tests.builders import BUCKET, settings, stage

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
    ("stages", "problem"),
    [
        ((stage(name="a", retired=True),), "a is retired: nothing starts there"),
        ((stage(name="a", next=("b",)), stage(name="b", job="sql", join=True)), "a leads to b"),
        (
            (stage(name="a", limits=RequestLimits(jobs=("sql",))),),
            r"a does not allow the probe: job: stage a runs only sql \(limits.jobs\)",
        ),
    ],
)
def test_without_such_a_stage_each_is_named_with_the_way_out(
    stages: tuple[Stage, ...], problem: str
) -> None:
    for name in (None, "a"):
        with pytest.raises(CommandError, match=rf"{problem}.*add one to the settings"):
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
