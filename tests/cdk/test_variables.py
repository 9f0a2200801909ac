"""Variables and secrets of stages: what is refused at synth, and who may read what."""

import json
from typing import Any, Final

import pytest
from pydantic import JsonValue

from longhaul.config.errors import SettingsError
from longhaul.core.settings import JOB_VARIABLES
from tests.cdk.synthesis import Synthesis, synthesize
from tests.projects import checked
from tests.synthesized import once

SECRET: Final = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:{}-AbCd12"
PARAMETER: Final = "arn:aws:ssm:eu-central-1:123456789012:parameter/shop/token"
STAGES: Final[list[Any]] = [
    {
        "name": "main",
        "advanced": {
            "environment": {"DB_HOST": "db.example"},
            "secrets": {"PASSWORD": f"{SECRET.format('db')}:password::", "TOKEN": PARAMETER},
        },
    },
    {
        "name": "clean",
        "advanced": {"secrets": {"A": SECRET.format("api"), "B": f"{SECRET.format('api')}:key::"}},
    },
    {"name": "none"},
    {
        "name": "theirs",
        "advanced": {
            "role": "arn:aws:iam::123456789012:role/theirs",
            "secrets": {"A": SECRET.format("api")},
        },
    },
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    settings: dict[str, JsonValue] = {"stages": STAGES, "sizes": {"tiny": {}}}
    return Synthesis(
        once(tmp_path_factory, "variables", lambda folder: synthesize(folder, settings))
    )


@pytest.fixture(scope="module")
def on_emr(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    settings: dict[str, JsonValue] = {"stages": STAGES[1:], "emr_serverless": {}}
    return Synthesis(
        once(tmp_path_factory, "variables-emr", lambda folder: synthesize(folder, settings))
    )


@pytest.mark.parametrize("role", ["Spark{}TaskRole", "Lambda{}JobRole"])
def test_only_the_role_of_a_stage_may_read_its_secrets(stack: Synthesis, role: str) -> None:
    def read(stage: str) -> dict[str, set[str]]:
        granted = stack.grants(role.format(stage))
        services = ("secretsmanager", "ssm", "kms")
        return {each: on for each, on in granted.items() if each.startswith(services)}

    assert read("") == {
        "secretsmanager:GetSecretValue": {SECRET.format("db")},
        "ssm:GetParameter": {PARAMETER},
    }
    assert read("Clean") == {"secretsmanager:GetSecretValue": {SECRET.format("api")}}
    assert read("None") == {}


def test_no_other_role_may_read_a_secret(stack: Synthesis) -> None:
    allowed = {
        role
        for policy in stack.resources("AWS::IAM::Policy").values()
        for role in policy["Roles"]
        if "GetSecretValue" in json.dumps(policy) or "GetParameter" in json.dumps(policy)
    }
    stages = ("", "Clean")
    assert allowed == {
        f"<{role.format(each)}>"
        for role in ("Spark{}TaskRole", "Lambda{}JobRole")
        for each in stages
    }


def _variables(holder: dict[str, Any]) -> dict[str, Any] | None:
    text = holder.get(JOB_VARIABLES)
    return None if text is None else dict(json.loads(text))


def test_tasks_know_the_variables_of_all_stages_and_a_function_those_of_its_own(
    stack: Synthesis,
) -> None:
    every = {
        each["name"]: {key: given for key, given in each["advanced"].items() if key != "role"}
        for each in STAGES
        if "advanced" in each
    }
    for each in stack.resources("AWS::ECS::TaskDefinition").values():
        (container,) = each["ContainerDefinitions"]
        named = {pair["Name"]: pair["Value"] for pair in container["Environment"]}
        assert _variables(named) == every
        # ECS would put the values into every process, and ask the execution role.
        assert "Secrets" not in container
    functions = stack.resources("AWS::Lambda::Function")
    known = {
        name: _variables(each["Environment"]["Variables"])
        for name, each in functions.items()
        if "Environment" in each
    }
    assert known["LambdaFunction"] == {"main": every["main"]}
    assert known["LambdaCleanFunction"] == {"clean": every["clean"]}
    assert known["LambdaNoneFunction"] is None
    assert known["Dispatcher"] is None


def test_a_driver_gets_them_as_its_second_argument(on_emr: Synthesis) -> None:
    run = on_emr.definition["States"]["RunUnderLease"]["Branches"][0]["States"]
    arguments = run["RunOnEmrServerless"]["Parameters"]["JobDriver"]["SparkSubmit"]
    assert "%22clean%22:%7B%22secrets%22" in arguments["EntryPointArguments"][1]


@pytest.mark.parametrize(
    ("stage", "more", "why"),
    [
        ({"environment": {"1A": "x"}}, {}, "should match pattern"),
        ({"environment": {"A-B": "x"}}, {}, "should match pattern"),
        (
            {"environment": {"A": "{{resolve:secretsmanager:shop}}"}},
            {},
            "name a secret by its ARN in secrets",
        ),
        *(
            ({"secrets": {name: PARAMETER}}, {}, "belongs to Longhaul, AWS, Spark or the system")
            for name in (
                "AWS_ACCESS_KEY_ID", "LONGHAUL_KEY", "SPARK_HOME", "PYSPARK_PYTHON", "PATH",
                "PYTHONPATH", "JAVA_TOOL_OPTIONS", "LD_PRELOAD", "ECS_AGENT_URI", "_HANDLER",
                "aws_region", "TMPDIR",
            )
        ),
        ({"environment": {"A": 1}}, {}, "string"),
        ({"secrets": {"A": "hunter22"}}, {}, "neither the ARN of a secret"),
        ({"environment": {"A": "x"}, "secrets": {"A": PARAMETER}}, {}, "leave one out"),
        ({"secrets": {"A": PARAMETER}}, {"emr_serverless": {}}, "do not reach"),
        ({"environment": {f"A{n}": "x" for n in range(51)}}, {}, "at most 50"),
    ],
)  # fmt: skip
def test_what_could_not_work_is_refused_at_synth(
    stage: dict[str, JsonValue], more: dict[str, JsonValue], why: str
) -> None:
    with pytest.raises(SettingsError, match=why):
        checked({"stages": [{"name": "main", "advanced": stage}], **more})
