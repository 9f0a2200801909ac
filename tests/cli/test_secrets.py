"""`longhaul secret`, and what `longhaul check` says of secrets."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from longhaul.cli.checks.finding import Level
from longhaul.cli.checks.stack import secrets
from longhaul.cli.local_project import _local_stage
from longhaul.cli.target import Target
from longhaul.core.secret_refs import SecretRef
from longhaul.core.settings import JOB_VARIABLES
from simulation.aws.service import Call, Proceed, client_error
from tests.cli.conftest import PLACE, World

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


def test_who_may_not_ask_gets_no_answer_and_no_problem(bare: World, target: Target) -> None:
    def deny(call: Call, proceed: Proceed) -> Any:
        if call.operation == "DescribeSecret":
            raise client_error("AccessDeniedException", "no", call.operation)
        return proceed()

    bare.aws.gate.around = deny
    one, other = secrets(target)
    assert (one.level, other.level) == (Level.SKIPPED, Level.OK)


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
    done = bare.run("secret", "set", "PASSWORD", input="x")
    assert done.exit_code == 2
    assert "aws secretsmanager put-secret-value" in done.stderr


def test_on_this_machine_secrets_are_in_the_embedded_account_and_region() -> None:
    secret = "arn:aws-cn:secretsmanager:cn-north-1:210987654321:secret:shop/db-AbCd12:password::"
    stage = _local_stage({"name": "main", "advanced": {"secrets": {"PASSWORD": secret}}})
    ref = SecretRef.parse(stage["advanced"]["secrets"]["PASSWORD"])
    assert (ref.arn, ref.key) == (SECRET, "password")
