"""Parts of the template, each by itself: functions, queues, data, tasks, network, workflow."""

import json
import re
from typing import Any

import pytest
from aws_cdk.aws_lambda import RecursiveLoop

from longhaul.cdk.functions import allowed_loop
from longhaul.config.known import ROOM_FOR_SETTINGS
from longhaul.core.settings import RuntimeSettings
from simulation.aws.stepfunctions.asl.machine import load
from tests.cdk.synthesis import Synthesis
from tests.cdk.test_layer import pins
from tests.layers import DEMO_JOBS, ROOT, engine_files


def test_the_code_asset_holds_only_what_functions_import(usual: Synthesis) -> None:
    files = usual.asset_files("functions/dispatcher.py")

    assert {"functions/sweeper.py", "longhaul/core/settings.py", "longhaul/core/lease.py"} <= files
    core = r"longhaul/((core|pipelines|outputs|saved|notices)/.*|[a-z_]+)\.py"
    others = {file for file in files if not re.fullmatch(rf"functions/.*\.py|{core}", file)}
    # Neither what makes the stack nor what begins in a task: a change of it leaves functions alone.
    assert others == engine_files("engines")


def test_the_dispatcher_ends_before_its_messages_become_visible_again(usual: Synthesis) -> None:
    timeout_s = usual.resources("AWS::Lambda::Function")["Dispatcher"]["Timeout"]

    # The event source mapping requires it; the difference is time for the response.
    assert timeout_s < usual.resources("AWS::SQS::Queue")["MainQueueJobs"]["VisibilityTimeout"]


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ("eu-central-1", RecursiveLoop.ALLOW),
        ("cn-north-1", RecursiveLoop.ALLOW),
        ("${Token[AWS.Region.4]}", RecursiveLoop.ALLOW),
        ("us-gov-west-1", None),
        ("mx-central-1", None),
    ],
)
def test_no_loop_is_allowed_where_lambda_looks_for_none(
    region: str, expected: RecursiveLoop | None
) -> None:
    assert allowed_loop(region) == expected


def test_every_part_reads_the_same_valid_settings(varied: Synthesis) -> None:
    functions = varied.resources("AWS::Lambda::Function").values()
    tasks = varied.resources("AWS::ECS::TaskDefinition").values()
    texts = {
        function["Environment"]["Variables"]["LONGHAUL_SETTINGS"] for function in functions
    } | {task["ContainerDefinitions"][0]["Environment"][0]["Value"] for task in tasks}

    (text,) = texts
    assert RuntimeSettings.model_validate_json(text.replace("<Data>", "data")).stages


def test_the_room_for_settings_and_the_other_variables_fit_lambdas_limit(varied: Synthesis) -> None:
    for function in varied.resources("AWS::Lambda::Function").values():
        variables = function["Environment"]["Variables"]
        rest = {name: value for name, value in variables.items() if name != "LONGHAUL_SETTINGS"}
        assert len(json.dumps(rest)) + ROOM_FOR_SETTINGS <= 4096


def test_the_layer_and_the_image_pin_the_versions_that_the_tests_run_with() -> None:
    tested = pins(ROOT / "requirements.txt") | pins(ROOT / "requirements-dev.txt")

    for requirements in ("functions/requirements.txt", "longhaul/runner/requirements.txt"):
        for package, version in pins(ROOT / requirements).items():
            assert tested[package] == version, f"{requirements}: {package}"


# What a platform team may ask for: a key of its own, versions, logs, and names of roles.


def test_without_a_database_of_its_own_the_stack_makes_none_and_opens_those_that_are_named(
    with_all: Synthesis,
) -> None:
    (tables,) = (
        each for each in with_all.statements("SparkTaskRole") if each.get("Sid") == "WriteTables"
    )

    assert with_all.resources("AWS::Glue::Database") == {}
    assert [each.rpartition(":")[2] for each in tables["Resource"]] == [
        "catalog",
        "database/their_lake",
        "table/their_lake/*",
    ]


@pytest.mark.parametrize("stack", ["usual", "guarded", "with_emr"])
def test_no_rule_of_the_bucket_deletes_what_a_table_has(
    stack: str, request: pytest.FixtureRequest
) -> None:
    synthesis: Synthesis = request.getfixturevalue(stack)
    rules = synthesis.only("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    deletes = [rule for rule in rules if "ExpirationInDays" in rule]

    # Without a prefix, a rule ends uploads that were never completed, and versions that are not
    # current any more: no table has either.
    assert deletes
    for rule in deletes:
        assert rule["Prefix"].startswith("longhaul/")


def test_the_image_is_built_as_the_settings_say(usual: Synthesis, varied: Synthesis) -> None:
    """By an option of BuildKit: without the setting any builder will do."""

    def source(found: Synthesis) -> dict[str, Any]:
        manifest = json.loads(found.template_file.with_name("Longhaul.assets.json").read_text())
        (image,) = manifest["dockerImages"].values()
        return image["source"]

    (output,) = source(varied)["dockerOutputs"]
    assert output.startswith("type=docker,")
    assert "compression=zstd" in output
    assert "dockerOutputs" not in source(usual)
    assert source(varied)["dockerBuildArgs"] == {"PIP_INDEX_URL": "https://pypi.example.com/simple"}
    assert "dockerBuildArgs" not in source(usual)


def test_the_image_is_built_from_the_jobs_code_alone(usual: Synthesis) -> None:
    files = usual.asset_files("longhaul/runner/Dockerfile")
    demo = {f"project/jobs/{each.name}" for each in DEMO_JOBS.glob("*.py")}

    assert {
        "longhaul/runner/__init__.py",
        "longhaul/core/settings.py",
        "longhaul/core/lease.py",
        "longhaul/runner/requirements.lock",
    } <= files
    others = {file for file in files if not re.fullmatch(r"longhaul/(?!engines).*\.py", file)}
    # Nothing that makes the stack: a change of it leaves the image alone.
    assert others == engine_files("engines", "runner") | demo | {
        ".dockerignore",
        "Dockerfile",
        "longhaul/runner/Dockerfile",
        "longhaul/runner/requirements.lock",
        "longhaul/runner/build-requirements.lock",
        "longhaul/runner/spark/log4j2.properties",
        "longhaul/py.typed",
    }


def test_the_image_does_not_run_as_root(usual: Synthesis) -> None:
    lines = (ROOT / "longhaul/runner/Dockerfile").read_text().splitlines()

    assert [line for line in lines if line.startswith(("ARG RUN", "USER"))] == [
        "ARG RUN_AS=longhaul",
        "USER ${RUN_AS}",
    ]
    (manifest,) = usual.folder.glob("*.assets.json")
    images = json.loads(manifest.read_text())["dockerImages"].values()
    assert images
    assert all("dockerBuildArgs" not in image["source"] for image in images)
    assert 'CMD ["python", "-m", "longhaul.engines.fargate.runner"]' in lines


def test_the_simulation_interprets_every_field_of_the_definition(
    usual: Synthesis, varied: Synthesis
) -> None:
    for synthesis in (usual, varied):
        definition = json.dumps(synthesis.definition).replace("<AWS::Partition>", "aws")
        load(definition)  # refuses what it does not know


def test_a_task_state_waits_longer_than_its_functions_timeout(
    usual: Synthesis,
) -> None:
    branches = usual.definition["States"]["RunUnderLease"]["Branches"]
    job, lease = (each["States"] for each in branches)
    functions = usual.resources("AWS::Lambda::Function")

    assert job["Settle"]["TimeoutSeconds"] > functions["Settle"]["Timeout"]
    assert lease["Beat"]["TimeoutSeconds"] > functions["Heartbeat"]["Timeout"]
