"""What is checked of a deployment before anything is built, and what `bootstrap` makes."""

from typing import Any

import pytest

from longhaul.cli.checks.finding import Finding, Level, ok, problem
from longhaul.cli.checks.listed import of_deployment
from longhaul.cli.checks.plan import plan_for, plan_of
from longhaul.cli.commands.deploy import with_qualifier
from longhaul.core.lease import State
from tests.builders import stage
from tests.cli.conftest import World
from tests.projects import checked


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


@pytest.fixture
def account(bare: World, machine: None) -> World:
    """A bootstrapped account in which nothing is deployed; a test may deploy the stack."""
    del machine
    return bare


def look(**settings: Any) -> dict[Level, list[Finding]]:
    """The findings by level, for the usual settings with these on top."""
    found: dict[Level, list[Finding]] = {}
    for finding in of_deployment(plan_of(checked({"architecture": "x86_64", **settings}), None)):
        assert finding.level in (Level.OK, Level.SKIPPED) or finding.do
        found.setdefault(finding.level, []).append(finding)
    return found


def only(found: dict[Level, list[Finding]], level: Level) -> Finding:
    (finding,) = found[level]
    return finding


@pytest.mark.usefixtures("account")
def test_a_prepared_account_and_machine_have_only_ok_findings() -> None:
    found = look()

    assert set(found) == {Level.OK}


def test_an_account_without_bootstrap_or_role_of_ecs_is_told_to_prepare_it(account: World) -> None:
    account.aws.ssm.parameters.clear()
    account.aws.iam.ecs_used = False

    finding = only(look(bootstrap_qualifier="acme"), Level.PROBLEM)

    assert "/cdk-bootstrap/acme/version and no role AWSServiceRoleForECS" in finding.what
    assert "longhaul bootstrap" in finding.do
    account.aws.ssm.parameters["/cdk-bootstrap/acme/version"] = "27"
    account.aws.iam.ecs_used = True
    assert Level.PROBLEM not in look(bootstrap_qualifier="acme")


def test_the_cdks_bootstrap_gets_the_qualifier_and_a_stack_of_its_own() -> None:
    assert with_qualifier(["--profile", "a"], "hnb659fds") == ["--profile", "a"]
    assert with_qualifier([], "acme") == [
        "--qualifier", "acme", "--toolkit-stack-name", "CDKToolkit-acme"
    ]  # fmt: skip
    assert with_qualifier(["--qualifier=other"], "acme") == ["--qualifier=other"]


@pytest.mark.parametrize(
    ("quota", "level", "said"),
    [
        (10.0, Level.OK, "10 Fargate On-Demand vCPUs, and all slots need 10"),
        (4.0, Level.WARNING, "4 Fargate On-Demand vCPUs, and all slots need 10"),
        (0.5, Level.PROBLEM, "0.5 Fargate On-Demand vCPUs, and all slots need 10"),
        (None, Level.SKIPPED, "the service does not say"),
    ],
)
def test_the_quota_is_compared_with_slots_times_size(
    account: World, quota: float | None, level: Level, said: str
) -> None:
    account.aws.quotas.quotas = {}
    if quota is not None:
        account.aws.quotas.quotas["Fargate On-Demand vCPU resource count"] = quota

    assert any(said in finding.what for finding in look()[level])


@pytest.mark.parametrize(
    ("limit", "sizes", "level"),
    [
        (21, {"tiny": {}}, Level.OK),
        (15, {"tiny": {}}, Level.WARNING),
        (10, {"tiny": {}}, Level.PROBLEM),
        (10, {}, Level.WARNING),
    ],
)
def test_functions_have_room_for_beats_and_tiny_jobs(
    account: World, limit: int, sizes: dict[str, Any], level: Level
) -> None:
    account.aws.lambda_.concurrency = limit

    said = [each.what for each in look(sizes=sizes)[level]]

    assert any(each.startswith(f"quotas: the account may run {limit} functions") for each in said)


@pytest.mark.usefixtures("account")
def test_an_image_of_another_architecture_is_emulated() -> None:
    assert "exec format error" in only(look(architecture="arm64"), Level.WARNING).what


def test_a_stage_that_is_taken_out_with_jobs_and_messages_in_it_is_refused(
    account: World,
) -> None:
    account.redeploy(stages=(stage(name="main", retired=True),))
    account.claim("a")
    account.bury("b")

    finding = only(look(stages=[{"name": "other"}]), Level.PROBLEM)

    assert "stage main: is not in the settings any more" in finding.what
    assert "1 dead letters" in finding.what
    assert "1 unfinished jobs" in finding.what
    assert "Take a stage out" in finding.do
    assert account.state("a") is State.RUNNING


def test_an_empty_stage_is_taken_out_only_after_it_was_retired(account: World) -> None:
    account.deploy()
    assert "was not retired" in only(look(stages=[{"name": "other"}]), Level.PROBLEM).what

    account.redeploy(stages=(stage(name="main", retired=True),))
    assert Level.PROBLEM not in look(stages=[{"name": "other"}])


@pytest.mark.usefixtures("account")
def test_of_the_cdks_arguments_those_that_choose_the_deployment_are_read() -> None:
    plan = plan_for(
        ["--require-approval", "never", "-c", 'longhaul={"stack_name": "Mine"}', "--profile", "me"]
    )

    assert (plan.settings.stack_name, plan.target.stack) == ("Mine", "Mine")
    assert plan.target.place.profile == "me"


@pytest.mark.usefixtures("no_project")
def test_before_there_is_a_stack_its_deployment_is_checked(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [ok("bootstrap: version 28"), problem("region: none is chosen", "choose one")]
    monkeypatch.setattr("longhaul.cli.checks.listed.of_deployment", lambda *_: iter(found))
    done = bare.run("check", code=1)
    assert "XX  region: none is chosen" in done.stdout
    assert "--  stack: Longhaul is not deployed yet" in done.stdout


def test_a_stack_that_is_named_and_is_not_there_is_no_deployment_to_check(bare: World) -> None:
    bare.run("check", "--stack", "Longhual", code=3)
