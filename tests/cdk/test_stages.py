import json
import re
import tomllib
from typing import Any, Final

import pytest
from pydantic import JsonValue

from longhaul.config.errors import SettingsError
from longhaul.config.rules import problems
from longhaul.config.settings import Settings
from longhaul.config.stages import pascal, queue_prefix
from longhaul.core.settings import JOB_VARIABLES
from tests.cdk.synthesis import Synthesis, synthesize
from tests.layers import ROOT
from tests.projects import checked
from tests.synthesized import once


@pytest.mark.parametrize(
    ("page", "kind", "count"), [("stages", "json", 2), ("daily", "toml", 1), ("daily", "json", 1)]
)
def test_the_stages_of_the_docs_are_valid_settings(page: str, kind: str, count: int) -> None:
    """A block has stages, or is one."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    blocks = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    jobs = sorted({*re.findall(r'"?job"? ?[=:] "(\w+)"', text), "probe"})
    for block in blocks:
        given = (json.loads if kind == "json" else tomllib.loads)(block)
        settings = {"stack_name": "Weblogs", "stages": given.get("stages", [given])}
        assert problems(Settings.model_validate(settings), jobs) == []
    assert len(blocks) == count


TABLE: dict[str, JsonValue] = {"output": "table://longhaul/flights"}
MAIN: dict[str, JsonValue] = {"name": "main", "next": ["clean"]}
JOIN: dict[str, JsonValue] = {"name": "sum", "job": "daily_delays", "join": True}
LAST: dict[str, JsonValue] = {"name": "sum", "job": "sql"}
ON_EMR: dict[str, JsonValue] = {"engine": "emr-serverless"}


def clean(**settings: JsonValue) -> dict[str, JsonValue]:
    return {"name": "clean", "job": "flights_clean", **settings}


def main(**settings: JsonValue) -> list[JsonValue]:
    return [{"name": "main", **settings}]


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        # The defaults of a stage are within its limits.
        (
            main(advanced={"timeout_s": 172_800}),
            "advanced.timeout_s: timeout: 2d is above the ceiling of stage main, 1d (limits.max_",
        ),
        (
            main(size="large", advanced={"limits": {"max_size": "medium"}}),
            "size: size: large is above the ceiling of stage main, medium (limits.max_size)",
        ),
        (
            main(advanced={"max_attempts": 11}),
            "advanced.max_attempts: max_attempts: 11 is above the ceiling of stage main, 10",
        ),
        (
            main(advanced={"stall_timeout_s": 700, "limits": {"max_stall_timeout_s": 600}}),
            "advanced.stall_timeout_s: stall_timeout: 11m40s is above the ceiling of stage main",
        ),
        (main(advanced={"stall_timeout_s": 39}), "stall_timeout: 39s is too short for a job that"),
        (
            main(job="flights_clean", advanced={"limits": {"jobs": ["sql"]}}),
            "stages.0.job: job: stage main runs only sql (limits.jobs)",
        ),
        # What follows may run, and write where it is sent.
        (
            [MAIN, clean(advanced={"limits": {"output_prefixes": ["clean/"]}})],
            "stages.1.follow_on.output: output: stage clean writes only below s3://data/clean/",
        ),
        (
            [MAIN, clean(follow_on={"output": "table://elsewhere/flights"})],
            "follow_on.output: output: this database is not allowed; allowed: longhaul",
        ),
        ([MAIN, clean(follow_on={**TABLE, "mode": "overwrite"})], "would replace"),
        ([MAIN, clean(follow_on={**TABLE, "mode": "error"})], "or fail on it"),
        ([MAIN, clean(follow_on={"output": "data:x/{day}/"})], "stages.1.follow_on.output"),
        ([MAIN, clean(follow_on={"output": "table:hits_{label}"})], "a table has one name"),
        ([MAIN, clean(follow_on={"output": "data:x/{stage}/"})], "only one job could write there"),
        (
            [
                MAIN,
                clean(follow_on={"output": "data:{label}/"}, next=["sum"]),
                {**LAST, "follow_on": {"output": "data:{label}/sum/"}},
            ],
            "is inside the output of stage clean",
        ),
        (
            [MAIN, clean(follow_on={"output": "s3://elsewhere/{label}/"})],
            "follow_on.output: output: this bucket is not allowed",
        ),
        (
            [MAIN, clean(follow_on={"output": "data:{label}/", "mode": "overwrite"})],
            "let it be append or error",
        ),
        (
            [
                MAIN,
                clean(
                    follow_on=TABLE,
                    advanced={"limits": {"output_prefixes": ["tables/longhaul/other/"]}},
                ),
            ],
            "output: stage clean writes only below s3://data/tables/longhaul/other/",
        ),
        (main(name="slots"), "clashes with the keys of slots"),
        # A cluster writes to prefixes alone, and reads them alone.
        (
            [MAIN, clean(follow_on=TABLE, advanced=ON_EMR)],
            "jobs on emr-serverless write to prefixes alone",
        ),
        (
            [MAIN, clean(follow_on=TABLE, next=["sum"]), {**LAST, "advanced": ON_EMR}],
            "passes its outputs to sum, whose engine emr-",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_stages_whose_jobs_could_not_run_are_refused(stages: list[JsonValue], problem: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        checked({"stages": stages, "emr_serverless": {}})


def test_a_join_may_replace_its_table() -> None:
    last: JsonValue = {
        **JOIN,
        "follow_on": {"output": "table://longhaul/delays", "mode": "overwrite"},
    }
    assert checked({"stages": [MAIN, clean(follow_on=TABLE, next=["sum"]), last]})
    assert checked({"stages": [MAIN, clean(follow_on={"output": "data:day/{label}/{stage}-{n}/"})]})


def test_a_stages_name_in_outputs_is_one_word() -> None:
    assert pascal("clean_up") == "CleanUp"


def test_two_stacks_never_ask_for_the_same_queues() -> None:
    names = ["Longhaul", "Longhaul-b", "Longhaul-b-c", "L"]
    stages = ["main", "b", "b_main", "c", "c_main"]
    prefixes = [queue_prefix(name, stage) for name in names for stage in stages]

    assert len(set(prefixes)) == len(prefixes)


# Variables and secrets of stages: what is refused at synth, and who may read what.


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
