"""`longhaul verify` against the strict fakes: what it sends, sees, says and clears away."""

import json
from typing import Any

import pytest

from longhaul.core.errors import InvalidRequestError, LonghaulError
from longhaul.core.lease import State, job_key
from longhaul.core.policy import parse_request
from longhaul.core.settings import EmrApplication, PathPolicy, RequestLimits, RuntimeSettings, Stage
from longhaul.operations.verify import Result, Trial, judged
from longhaul.operations.verify_cases import CASES, ON_EMR, TABLE, Case, body, cases_of, stage_for
from longhaul.wiring import Wiring
from tests.builders import BUCKET, NOW, running, settings, stage
from tests.cli.conftest import World


@pytest.fixture
def probed(bare: World) -> World:
    """A stack with the probe in its catalogue."""
    bare.redeploy(jobs=("probe", "sql"))
    bare.parts = Wiring(bare.settings, bare.aws.client)
    return bare


def by_name(world: World) -> dict[str, str]:
    """The bodies that were sent, by case."""
    bodies = [message["Body"] for message in world.queued()]
    names = [case.name for case in CASES]
    return {
        name: text for text in bodies for name in names if json.loads(text)["job_id"].endswith(name)
    }


def test_a_stack_that_cannot_run_the_probe_is_refused_with_the_way_out(world: World) -> None:
    world.run("verify", code=1, says="no stage takes probes")
    assert not world.queued()


def test_nothing_is_sent_while_nothing_starts(probed: World) -> None:
    probed.aws.lambda_.mappings[0]["State"] = "Disabled"
    probed.run("verify", code=1, says="no job starts")
    probed.aws.lambda_.mappings[0]["State"] = "Enabled"
    probed.run("stage", "pause", "main")
    probed.run("verify", code=1, says="no job starts")
    assert not probed.queued()


def is_cancelled(world: World) -> bool:
    """Whether each job that was sent is marked: a message that comes later starts nothing."""
    sent = by_name(world)
    assert sent
    marks = [
        world.parts.leases.load(job_key("main", json.loads(text)["job_id"]))
        for name, text in sent.items()
        if name != "invalid"
    ]
    return all(mark is not None and mark.cancel_requested_at is not None for mark in marks)


def test_jobs_that_never_start_are_failures_and_are_cancelled(probed: World) -> None:
    done = probed.run("verify", "--json", code=1)
    found = {each["case"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert {each["verdict"] for each in found.values()} == {"failed"}
    assert list(found) == [case.name for case in CASES]
    assert found["success"]["happened"] == "not over in time: no job"
    assert is_cancelled(probed)


def test_an_interrupt_cancels_what_runs(probed: World) -> None:
    probed.interrupt()
    probed.run("verify", code=130)
    assert is_cancelled(probed)


# `longhaul verify`: where the probes go, and whether what happened is what was expected.


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
        with pytest.raises(LonghaulError, match=r"takes probes: .*add one to the settings"):
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
