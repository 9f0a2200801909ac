"""What `longhaul check` says of a stack that is deployed."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli.checks.finding import Level
from longhaul.cli.checks.stack import secrets, versions
from longhaul.cli.local_project import _local_stage
from longhaul.cli.target import Target
from longhaul.config.project_file import VARIABLE
from longhaul.config.sources import version
from longhaul.core.secret_refs import SecretRef
from longhaul.core.settings import JOB_VARIABLES
from longhaul.operations.stack import Deployment
from simulation.aws.service import Call, Proceed, client_error
from tests.cli.conftest import PLACE, World


@pytest.fixture(autouse=True)
def deployed(monkeypatch: pytest.MonkeyPatch, bare: World) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    bare.deploy()


def examine(world: World, *arguments: str) -> tuple[int, dict[str, list[str]]]:
    """The exit code, and the findings by level."""
    done = world.run("check", "--json", *arguments, code=None)
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        finding = json.loads(line)
        found.setdefault(finding["level"], []).append(finding["what"])
        assert finding["level"] in ("ok", "skipped") or finding["do"]
    return done.exit_code, found


def test_a_sound_deployment_has_only_ok_findings(bare: World) -> None:
    code, found = examine(bare)
    assert (code, set(found)) == (0, {"ok"}), found


@pytest.mark.parametrize(
    ("deployed", "project", "said"),
    [
        ("0.0.9", None, ["the stack was deployed by 0.0.9"]),
        (version(), 'version = "0.0.8"', ["longhaul.toml is for 0.0.8"]),
        (version(), "", ["longhaul.toml names no version"]),
    ],
)
def test_other_versions_of_stack_and_project_are_warnings_that_say_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deployed: str,
    project: str | None,
    said: list[str],
) -> None:
    outputs = {"LonghaulVersion": deployed}
    monkeypatch.setattr(Target, "deployment", Deployment("Longhaul", "CREATE_COMPLETE", outputs))
    if project is not None:
        (tmp_path / "longhaul.toml").write_text(project)
        monkeypatch.setenv(VARIABLE, str(tmp_path))
    found = [each.what for each in versions(Target(PLACE, None)) if each.level is Level.WARNING]
    assert len(found) == len(said)
    assert all(words in each for words, each in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("spoil", "level", "said"),
    [
        (
            lambda w: w.aws.quotas.quotas.update({"Fargate On-Demand vCPU resource count": 0.5}),
            "warning",
            "0.5 Fargate",
        ),
        (lambda w: w.aws.lambda_.mappings[0].update(State="Disabled"), "problem", "is Disabled"),
        (
            lambda w: w.aws.lambda_.mappings[0].pop("FunctionResponseTypes"),
            "problem",
            "messages of running jobs are lost",
        ),
        (lambda w: w.aws.lambda_.mappings.clear(), "problem", "none is there"),
        (
            lambda w: w.aws.cloudwatch.ringing.update({"Longhaul-SweeperStopped": "stopped"}),
            "problem",
            "alarms: stopped",
        ),
        (lambda w: w.aws.ssm.parameters.clear(), "warning", "has no parameter /cdk-bootstrap"),
        (lambda w: w.bury("a"), "warning", "stage main: dead letters: 0, and 1 other of jobs"),
        (
            lambda w: w.deploy(status="UPDATE_ROLLBACK_COMPLETE"),
            "warning",
            "UPDATE_ROLLBACK_COMPLETE",
        ),
    ],
)
def test_each_problem_is_found(bare: World, spoil: Any, level: str, said: str) -> None:
    """Of the next deployment it is a warning: what is deployed runs without."""
    spoil(bare)
    code, found = examine(bare)
    assert any(said in what for what in found.get(level, [])), found
    assert code == (1 if "problem" in found else 0)


def test_of_another_stack_and_of_the_embedded_aws_no_deployment_is_checked(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.deploy("Night")
    _, found = examine(bare, "--stack", "Night")
    assert found["skipped"] == ["deployment: the settings here are not those of the stack Night"]
    here = replace(PLACE, endpoint="http://127.0.0.1:1", embedded=True)
    monkeypatch.setattr("longhaul.cli.target.locate", lambda *_: here)
    code, found = examine(bare)
    assert (code, set(found)) == (0, {"ok", "skipped"})


def test_a_check_that_is_denied_is_skipped_and_the_others_run(bare: World) -> None:
    def around(call: Call, proceed: Proceed) -> dict[str, Any]:
        if call.service in ("iam", "service-quotas", "cloudwatch"):
            raise client_error("AccessDenied", "you may not", call.operation, status=403)
        return proceed()

    bare.aws.gate.around = around
    code, found = examine(bare)
    assert code == 0
    assert len(found["skipped"]) == 3
    assert all("you may not" in what for what in found["skipped"])


# `longhaul secret`, and what `longhaul check` says of secrets.


SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop/db-AbCd12"
PARAMETER = "arn:aws:ssm:us-east-1:123456789012:parameter/shop/token"
AT = datetime(2026, 11, 27, 12, tzinfo=UTC)


@pytest.fixture
def target(bare: World) -> Target:
    """A stack whose stage has two secrets, both of them there."""
    variables = {"main": {"secrets": {"PASSWORD": f"{SECRET}:password::", "TOKEN": PARAMETER}}}
    container: dict[str, Any] = {
        "name": "job",
        "environment": [{"name": JOB_VARIABLES, "value": json.dumps(variables)}],
    }
    family = bare.aws.ecs.register_task_definition(
        family="Longhaul-small", containerDefinitions=[container]
    )
    definition = family["taskDefinition"]["taskDefinitionArn"]
    stack = bare.deploy()
    resources = {
        **stack.resources,
        "SparkSmall0A1B2C3D": ("AWS::ECS::TaskDefinition", definition),
    }
    bare.deploy(resources=resources)
    bare.aws.secretsmanager.secrets[SECRET] = {"Name": "shop/db"}
    bare.aws.ssm.parameters["/shop/token"] = "never read"
    return Target(PLACE, None)


def test_a_secret_is_there_or_not_and_no_value_is_read(bare: World, target: Target) -> None:
    assert [each.level for each in secrets(target)] == [Level.OK, Level.OK]
    bare.aws.secretsmanager.secrets[SECRET]["DeletedDate"] = AT
    bare.aws.ssm.parameters.clear()
    one, other = secrets(target)
    assert (one.level, other.level) == (Level.PROBLEM, Level.PROBLEM)
    assert "PASSWORD of stage main" in one.what
    assert "TOKEN of stage main" in other.what
    bare.aws.secretsmanager.secrets.clear()
    assert next(secrets(target)).level is Level.PROBLEM
    read = {"GetSecretValue", "GetParameter"}
    assert not [call for call in bare.aws.gate.calls if call.operation in read]


@pytest.mark.usefixtures("target")
def test_the_list_says_which_are_missing(bare: World) -> None:
    bare.aws.ssm.parameters.clear()
    done = bare.run("secret", "list", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["variable"], each["is_there"]) for each in rows] == [
        ("PASSWORD", True),
        ("TOKEN", False),
    ]
    assert rows[0]["secret"] == f"{SECRET}:password::"
    assert "missing" in bare.run("secret", "list").stdout


@pytest.mark.usefixtures("target")
def test_secrets_of_an_account_are_not_set_here(bare: World) -> None:
    bare.run(
        "secret", "set", "PASSWORD", input="x", code=2, says="aws secretsmanager put-secret-value"
    )


def test_on_this_machine_secrets_are_in_the_embedded_account_and_region() -> None:
    secret = "arn:aws-cn:secretsmanager:cn-north-1:210987654321:secret:shop/db-AbCd12:password::"
    stage = _local_stage({"name": "main", "advanced": {"secrets": {"PASSWORD": secret}}})
    ref = SecretRef.parse(stage["advanced"]["secrets"]["PASSWORD"])
    assert (ref.arn, ref.key) == (SECRET, "password")
