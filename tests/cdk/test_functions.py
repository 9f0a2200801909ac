import json
import re
from pathlib import Path

import pytest
from aws_cdk.aws_lambda import RecursiveLoop

from longhaul.cdk.functions import allowed_loop
from longhaul.config.known import ROOM_FOR_SETTINGS
from longhaul.core.settings import RequestLimits, RuntimeSettings
from tests.cdk.conftest import SIGNING
from tests.cdk.synthesis import Synthesis, synthesize
from tests.cdk.test_locking import pins
from tests.layers import ROOT, engine_files


def test_functions_follow_the_set_architecture_and_retention(varied: Synthesis) -> None:
    assert {
        tuple(function["Architectures"])
        for function in varied.resources("AWS::Lambda::Function").values()
    } == {("x86_64",)}
    assert {
        group["RetentionInDays"] for group in varied.resources("AWS::Logs::LogGroup").values()
    } == {3653}


def test_functions_run_in_the_vpc_and_are_signed_where_the_settings_say_so(
    usual: Synthesis, varied: Synthesis
) -> None:
    for name, function in varied.resources("AWS::Lambda::Function").items():
        assert function["VpcConfig"] == {
            "SecurityGroupIds": ["<NetworkTasks.GroupId>"],
            "SubnetIds": ["subnet-0123456789abcdef0"],
        }
        assert function["CodeSigningConfigArn"] == SIGNING
        actions = [action for each in varied.statements(f"{name}Role") for action in each["Action"]]
        assert "ec2:CreateNetworkInterface" in actions
    for function in usual.resources("AWS::Lambda::Function").values():
        assert not {"VpcConfig", "CodeSigningConfigArn"} & function.keys()


def test_the_code_asset_holds_only_what_functions_import(usual: Synthesis) -> None:
    files = usual.asset_files("functions/dispatcher.py")

    assert {"functions/sweeper.py", "longhaul/core/settings.py", "longhaul/core/lease.py"} <= files
    core = r"longhaul/((core|pipelines|outputs|saved|notices)/.*|[a-z_]+)\.py"
    others = {file for file in files if not re.fullmatch(rf"functions/.*\.py|{core}", file)}
    # Neither what makes the stack nor what begins in a task: a change of it leaves functions alone.
    assert others == engine_files("core")


def test_the_dispatcher_ends_before_its_messages_become_visible_again(usual: Synthesis) -> None:
    timeout_s = usual.resources("AWS::Lambda::Function")["Dispatcher"]["Timeout"]

    # The event source mapping requires it; the difference is time for the response.
    assert timeout_s < usual.resources("AWS::SQS::Queue")["MainQueueJobs"]["VisibilityTimeout"]


def test_a_retired_stage_keeps_its_queues_and_settings_and_starts_nothing(
    tmp_path: Path,
) -> None:
    retired = synthesize(
        tmp_path, {"stages": [{"name": "main"}, {"name": "old", "advanced": {"retired": True}}]}
    )

    mappings = {
        mapping["EventSourceArn"]: mapping["Enabled"]
        for mapping in retired.resources("AWS::Lambda::EventSourceMapping").values()
    }
    assert mappings == {"<MainQueueJobs.Arn>": True, "<OldQueueJobs.Arn>": True}
    assert {"OldQueueJobs", "OldQueueDeadLetters"} <= retired.resources("AWS::SQS::Queue").keys()
    # Settle, heartbeat and sweeper still know the stage, so its running jobs finish.
    functions = retired.resources("AWS::Lambda::Function").values()
    for function in functions:
        known = RuntimeSettings.model_validate_json(
            function["Environment"]["Variables"]["LONGHAUL_SETTINGS"]
        )
        assert [(stage.name, stage.retired) for stage in known.stages] == [
            ("main", False),
            ("old", True),
        ]
    # Its messages wait on purpose, which is no alarm; dead letters still are.
    alarms = retired.resources("AWS::CloudWatch::Alarm").keys()
    assert {name for name in alarms if name.startswith("AlarmsOld")} == {
        "AlarmsOldDeadLetters",
        "AlarmsOldWithoutBeat",
        "AlarmsOldNearRetention",
        "AlarmsOldNeverReceived",
    }


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
    settings = RuntimeSettings.model_validate_json(text.replace("<Data>", "data"))
    assert [(stage.name, stage.slots, stage.queue_url) for stage in settings.stages] == [
        ("main", 10, "<MainQueueJobs>"),
        ("clean_up", 3, "<CleanUpQueueJobs>"),
    ]
    assert settings.stages[1].limits == RequestLimits(
        max_size="large",
        max_timeout_s=28_800,
        jobs=("flights_clean", "s3://data/jobs/nightly/"),
        input_prefixes=("s3://their-input/",),
        output_prefixes=("s3://data/nightly/",),
    )
    assert settings.paths.input_buckets == ("their-input",)
    assert settings.paths.output_buckets == ("their-output",)
    assert settings.paths.table_databases == ("longhaul", "their_lake")
    assert (settings.lease.stop_timeout_s, settings.lease.beat_floor_s) == (60, 15)


def test_the_room_for_settings_and_the_other_variables_fit_lambdas_limit(varied: Synthesis) -> None:
    for function in varied.resources("AWS::Lambda::Function").values():
        variables = function["Environment"]["Variables"]
        rest = {name: value for name, value in variables.items() if name != "LONGHAUL_SETTINGS"}
        assert len(json.dumps(rest)) + ROOM_FOR_SETTINGS <= 4096


def test_the_layer_and_the_image_pin_the_versions_that_the_tests_run_with() -> None:
    tested = pins(ROOT / "requirements.txt")

    for requirements in ("functions/requirements.txt", "longhaul/runner/requirements.txt"):
        for package, version in pins(ROOT / requirements).items():
            assert tested[package] == version, f"{requirements}: {package}"
