"""`longhaul check --change-set`: what it says before it calls, what is found, its exit code."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from longhaul.cli.checks.finding import ok, problem
from longhaul.cli.cli import app
from longhaul.cli.commands import check
from simulation.aws.clock import VirtualClock
from tests.cli.change_set.conftest import CloudFormation, Stubs

FOUND = [ok("bootstrap: version 28")]


@pytest.fixture
def run(stubs: Stubs, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command in an empty folder, with the usual template."""
    del stubs
    monkeypatch.setattr(check, "_template", lambda *_: template)
    monkeypatch.setattr("longhaul.cli.checks.listed.of_deployment", lambda *_: iter(FOUND))
    monkeypatch.setattr("longhaul.adapters.clock.SystemClock", VirtualClock)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> Result:
        done = CliRunner().invoke(app, ["check", "--change-set", *arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done

    return invoke


@pytest.mark.usefixtures("no_project")
def test_a_rehearsal_says_what_it_makes_and_what_cloudformation_finds(
    run: Any, cloudformation: CloudFormation
) -> None:
    done = run()

    assert done.exit_code == 0, done.output
    assert "it makes, and removes again: a change set rehearsal-" in done.stderr
    assert "ok  bootstrap: version 28\n" in done.stdout
    assert "ok  change set: CREATE_COMPLETE" in done.stdout
    assert cloudformation.is_clean


@pytest.mark.usefixtures("no_project")
def test_a_problem_ends_it_with_one(run: Any, cloudformation: CloudFormation) -> None:
    cloudformation.made = ["FAILED"]
    cloudformation.reason = "a name is taken"

    done = run()

    assert done.exit_code == 1
    assert "XX  change set: FAILED: a name is taken" in done.stdout


@pytest.mark.usefixtures("no_project")
def test_a_problem_of_the_deployment_ends_it_with_one(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a stack that is deployed: a pipeline may deploy with the CDK behind it."""
    monkeypatch.setitem(globals(), "FOUND", [problem("network: no route to ECR", "add one")])

    done = run()

    assert done.exit_code == 1
    assert "XX  network: no route to ECR" in done.stdout
    assert "ok  change set: CREATE_COMPLETE" in done.stdout


@pytest.mark.usefixtures("no_project")
def test_credentials_of_another_account_end_it_before_it_asks(run: Any, stubs: Stubs) -> None:
    done = run("-c", 'longhaul={"account": "999999999999"}')

    assert done.exit_code == 1
    assert "the settings say 999999999999" in done.stderr
    assert {name for name, _ in stubs.calls} == {"sts.GetCallerIdentity"}
