"""`longhaul rehearse` as a command: what it says before it calls, its report, its exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from longhaul.cli.cli import app
from longhaul.cli.rehearsal.template import Template
from longhaul.cli.work import rehearse
from simulation.aws.clock import VirtualClock
from tests.cli.rehearsal.conftest import ACCOUNT, Stubs


@pytest.fixture
def run(stubs: Stubs, template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command in an empty folder, with the usual template."""
    del stubs

    def synthesize(folder: Path, _: object) -> None:
        asset = {"destinations": {"x": {"bucketName": "cdk-assets-${AWS::AccountId}"}}}
        (folder / "Longhaul.template.json").write_text(json.dumps(template.content))
        (folder / "Longhaul.assets.json").write_text(json.dumps({"files": {"x": asset}}))

    monkeypatch.setattr(rehearse, "_synthesize", synthesize)
    monkeypatch.setattr(rehearse, "SystemClock", VirtualClock)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> Result:
        done = CliRunner().invoke(app, ["rehearse", *arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done

    return invoke


@pytest.mark.usefixtures("no_project")
def test_a_rehearsal_says_what_it_calls_and_writes_a_report_without_account_ids(
    run: Any, tmp_path: Path
) -> None:
    done = run()

    assert done.exit_code == 0, done.output
    assert "it makes, and removes again: a change set, which is never executed" in done.stderr
    for call in ("access-analyzer:ValidatePolicy", "states:TestState", "events:TestEventPattern"):
        assert call in done.stderr
    assert "0 problems, 0 to look at" in done.stderr
    page = (tmp_path / "longhaul-rehearsal.html").read_text()
    report = json.loads((tmp_path / "longhaul-rehearsal.json").read_text())
    assert "Rehearsal of a deployment" in page
    assert {each["verdict"] for each in report["answers"]} == {"ok"}
    assert ACCOUNT not in page
    assert ACCOUNT not in json.dumps(report)


@pytest.mark.usefixtures("no_project")
def test_a_problem_ends_it_with_one_and_json_has_it_whole(run: Any, stubs: Stubs) -> None:
    diagnosis = {"severity": "ERROR", "code": "X", "message": f"of {ACCOUNT}"}
    stubs.answers["stepfunctions.ValidateStateMachineDefinition"] = lambda _: {
        "result": "FAIL",
        "diagnostics": [diagnosis],
    }

    done = run("--json", "-o", "there.html")

    assert done.exit_code == 1
    records = [json.loads(line) for line in done.stdout.splitlines()]
    (problem,) = [each for each in records if each["verdict"] == "problem"]
    assert problem["check"] == "definition"
    assert problem["answer"] == "X: of ACCOUNT"
    assert problem["do"]
    assert Path("there.json").exists()


@pytest.mark.usefixtures("no_project")
def test_credentials_of_another_account_end_it_before_it_asks(run: Any, stubs: Stubs) -> None:
    done = run("-c", 'longhaul={"account": "999999999999"}')

    assert done.exit_code == 1
    assert "the settings say 999999999999" in done.stderr
    assert {name for name, _ in stubs.calls} == {"sts.GetCallerIdentity"}
