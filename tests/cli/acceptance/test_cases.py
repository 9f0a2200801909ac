"""Where the probes go, and what is said where they cannot."""

import json

import pytest

from longhaul.cli.acceptance.cases import (
    CASES,
    IN_SOME,
    ON_EMR,
    Case,
    body,
    output_of,
    pipeline,
    some_of,
    stage_for,
)
from longhaul.cli.errors import CommandError
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.policy import parse_request
from longhaul.settings import EmrApplication, PathPolicy, RequestLimits, RuntimeSettings, Stage
from tests.builders import BUCKET, settings, stage

JOBS = ("probe", "sql")
THROUGH = (
    stage(name="main"),
    stage(name="probes", next=("members",)),
    stage(name="members", job="probe", next=("joins",)),
    stage(name="joins", job="probe", join=True),
)


def deployed(*stages: Stage) -> RuntimeSettings:
    paths = PathPolicy(data_bucket=BUCKET, table_databases=("longhaul",))
    return settings(jobs=JOBS, stages=stages, paths=paths)


def with_emr(known: RuntimeSettings) -> RuntimeSettings:
    arn = "arn:aws:emr-serverless:us-east-1:123456789012:/applications/00f1"
    application = EmrApplication(application_arn=arn, work_area=f"s3://{BUCKET}/longhaul/work/")
    return known.model_copy(update={"emr_serverless": application})


def test_a_job_is_tried_on_emr_serverless_only_where_the_stack_has_it() -> None:
    known = deployed(*THROUGH)
    assert ON_EMR not in some_of(known)
    assert ON_EMR in some_of(with_emr(known))
    assert json.loads(body(ON_EMR, "verify-1", "s3://a/"))["engine"] == "emr-serverless"


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
        (
            (stage(name="a", limits=RequestLimits(output_prefixes=(f"s3://{BUCKET}/out/",))),),
            r"a does not allow the probe: output: .* \(limits.output_prefixes\)",
        ),
    ],
)
def test_without_such_a_stage_each_is_named_with_the_way_out(
    stages: tuple[Stage, ...], problem: str
) -> None:
    with pytest.raises(CommandError, match=rf"{problem}.*add one to the settings"):
        stage_for(deployed(*stages), None)
    with pytest.raises(CommandError, match=problem):
        stage_for(deployed(*stages), "a")


def test_a_stack_without_the_probe_is_refused() -> None:
    with pytest.raises(CommandError, match=r"no job .probe..*deploy it with this version"):
        stage_for(settings(), None)


def test_a_fan_out_goes_only_where_its_join_is_a_probe() -> None:
    found = pipeline(deployed(*THROUGH))
    assert found is not None
    assert [each.name for each in (found.first, found.members, found.join)] == [
        "probes",
        "members",
        "joins",
    ]
    real = stage(name="joins", job="sql", join=True)
    assert pipeline(deployed(*THROUGH[:3], real)) is None
    leads_on = stage(name="joins", job="probe", join=True, next=("main",))
    assert pipeline(deployed(*THROUGH[:3], leads_on)) is None


@pytest.mark.parametrize("case", [*CASES, *IN_SOME], ids=lambda case: case.name)
def test_the_dispatcher_takes_every_body_but_the_invalid_one(case: Case) -> None:
    known, where = with_emr(deployed(*THROUGH)), THROUGH[1] if case.members else THROUGH[0]
    text = body(case, "verify-1", output_of(case, "verify-1", known), pipeline(known))
    assert json.loads(text)["job_id"] == "verify-1"
    if case is next(each for each in CASES if each.name == "invalid"):
        with pytest.raises(InvalidRequestError):
            parse_request(text, known, where)
    else:
        assert parse_request(text, known, where).job == "probe"
