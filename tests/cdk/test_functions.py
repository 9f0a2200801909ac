import json
import re
from pathlib import Path

import pytest
from aws_cdk.aws_lambda import RecursiveLoop

from longhaul.cdk.deployed import ROOM_FOR_SETTINGS
from longhaul.cdk.functions import allowed_loop
from longhaul.settings import RequestLimits, RuntimeSettings
from tests.cdk.conftest import SIGNING
from tests.cdk.synthesis import Synthesis, synthesize
from tests.layers import ROOT, engine_files

NAMES = {"Dispatcher", "Heartbeat", "Settle", "Sweeper"}


def test_the_stack_has_four_functions(usual: Synthesis) -> None:
    # A fifth would be the provider of a custom resource, which the embedded AWS cannot run.
    assert set(usual.resources("AWS::Lambda::Function")) == NAMES


def test_sam_calls_the_functions_by_the_names_that_the_docs_do(usual: Synthesis) -> None:
    # sam reads a name out of a path of the CDK only where that has at most three parts.
    assert {
        resource["Metadata"]["SamResourceId"]
        for resource in usual.template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    } == NAMES


def test_functions_run_python_on_arm_traced_and_with_logs_that_end(usual: Synthesis) -> None:
    logs = usual.resources("AWS::Logs::LogGroup")

    for name, function in usual.resources("AWS::Lambda::Function").items():
        assert (function["Runtime"], function["Architectures"]) == ("python3.13", ["arm64"])
        assert function["TracingConfig"] == {"Mode": "Active"}
        assert function["Handler"] == f"functions.{name.lower()}.lambda_handler"
        assert function["LoggingConfig"] == {"LogGroup": f"<{name}Logs>"}
        assert logs[f"{name}Logs"]["RetentionInDays"] == 30
        assert function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] == name.lower()


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


def test_functions_share_one_code_asset_and_one_layer(usual: Synthesis) -> None:
    functions = usual.resources("AWS::Lambda::Function").values()

    assert len({function["Code"]["S3Key"] for function in functions}) == 1
    assert {tuple(function["Layers"]) for function in functions} == {("<SharedPackages>",)}


def test_the_code_asset_holds_only_what_functions_import(usual: Synthesis) -> None:
    files = usual.asset_files("functions/dispatcher.py")

    assert {"functions/sweeper.py", "longhaul/settings.py", "longhaul/domain/lease.py"} <= files
    core = r"longhaul/(domain/.*|adapters/.*|[a-z_]+)\.py"
    others = {file for file in files if not re.fullmatch(rf"functions/.*\.py|{core}", file)}
    # Neither what makes the stack nor what begins in a task: a change of it leaves functions alone.
    assert others == engine_files("core")


@pytest.mark.parametrize(
    ("name", "timeout_s"),
    [("Dispatcher", 75), ("Heartbeat", 30), ("Settle", 900), ("Sweeper", 300)],
)
def test_each_function_has_the_time_its_work_needs(
    usual: Synthesis, name: str, timeout_s: int
) -> None:
    assert usual.resources("AWS::Lambda::Function")[name]["Timeout"] == timeout_s


def test_the_dispatcher_ends_before_its_messages_become_visible_again(usual: Synthesis) -> None:
    timeout_s = usual.resources("AWS::Lambda::Function")["Dispatcher"]["Timeout"]

    # The event source mapping requires it; the difference is time for the response.
    assert timeout_s < usual.resources("AWS::SQS::Queue")["MainQueueJobs"]["VisibilityTimeout"]


def test_the_mapping_deletes_only_messages_that_the_dispatcher_releases(usual: Synthesis) -> None:
    mapping = usual.only("AWS::Lambda::EventSourceMapping")

    # Compared whole: a filter would delete what it does not match, and a window would lengthen the
    # time for which messages are invisible.
    assert mapping == {
        "BatchSize": 10,
        "EventSourceArn": "<MainQueueJobs.Arn>",
        "FunctionName": "<Dispatcher>",
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "MaximumBatchingWindowInSeconds": 0,
        "Enabled": True,
        "ScalingConfig": {"MaximumConcurrency": 5},
    }


def test_the_docs_say_how_many_dispatchers_a_stage_may_have(usual: Synthesis) -> None:
    mapping = usual.only("AWS::Lambda::EventSourceMapping")
    number = {5: "five"}[mapping["ScalingConfig"]["MaximumConcurrency"]]

    page = (ROOT / "docs" / "internals" / "security.md").read_text()

    assert f"The mapping bounds the dispatchers of a stage to {number} at a time" in page


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


def test_lambda_does_not_take_renewed_messages_and_follow_ons_for_a_runaway_loop(
    usual: Synthesis,
) -> None:
    # By default Lambda stops a function at about the sixteenth message of a chain. The three may
    # send to the queue that feeds the dispatcher; the heartbeat sends nothing.
    recursion = {
        name: function.get("RecursiveLoop")
        for name, function in usual.resources("AWS::Lambda::Function").items()
    }
    senders = {name for name in recursion if "sqs:SendMessage" in usual.grants(f"{name}Role")}

    assert senders == {"Dispatcher", "Settle", "Sweeper"}
    assert recursion == {name: "Allow" if name in senders else None for name in NAMES}


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


def test_each_stage_feeds_the_dispatcher(varied: Synthesis) -> None:
    mappings = varied.resources("AWS::Lambda::EventSourceMapping").values()

    assert {mapping["EventSourceArn"] for mapping in mappings} == {
        "<MainQueueJobs.Arn>",
        "<CleanUpQueueJobs.Arn>",
    }


def test_every_part_reads_the_same_valid_settings(varied: Synthesis) -> None:
    functions = varied.resources("AWS::Lambda::Function").values()
    tasks = varied.resources("AWS::ECS::TaskDefinition").values()
    texts = {
        function["Environment"]["Variables"]["LONGHAUL_SETTINGS"] for function in functions
    } | {task["ContainerDefinitions"][0]["Environment"][0]["Value"] for task in tasks}

    (text,) = texts
    settings = RuntimeSettings.model_validate_json(text)
    assert [(stage.name, stage.slots, stage.queue_url) for stage in settings.stages] == [
        ("main", 10, "<MainQueueJobs>"),
        ("clean-up", 3, "<CleanUpQueueJobs>"),
    ]
    assert settings.stages[1].limits == RequestLimits(
        max_size="large",
        max_timeout_s=28_800,
        jobs=("flights_clean", "s3://<Data>/jobs/nightly/"),
        input_prefixes=("s3://their-input/",),
        output_prefixes=("s3://<Data>/nightly/",),
    )
    assert settings.paths.input_buckets == ("their-input",)
    assert settings.paths.output_buckets == ("their-output",)
    assert settings.paths.table_databases == ("longhaul", "their_lake")
    assert (settings.lease.stop_timeout_s, settings.lease.beat_floor_s) == (60, 15)


def test_failed_executions_and_the_clock_start_the_sweeper(usual: Synthesis) -> None:
    rules = usual.resources("AWS::Events::Rule")

    assert rules["SweepingExecutionEnded"]["EventPattern"] == {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {
            "stateMachineArn": ["<WorkflowMachine>"],
            "status": ["FAILED", "TIMED_OUT", "ABORTED"],
        },
    }
    assert rules["SweepingEveryFewMinutes"]["ScheduleExpression"] == "rate(5 minutes)"
    for rule in rules.values():
        (target,) = rule["Targets"]
        assert target["Arn"] == "<Sweeper.Arn>"
        assert target["DeadLetterConfig"] == {"Arn": "<SweepingUndelivered.Arn>"}


def test_the_room_for_settings_and_the_other_variables_fit_lambdas_limit(varied: Synthesis) -> None:
    for function in varied.resources("AWS::Lambda::Function").values():
        variables = function["Environment"]["Variables"]
        rest = {name: value for name, value in variables.items() if name != "LONGHAUL_SETTINGS"}
        assert len(json.dumps(rest)) + ROOM_FOR_SETTINGS <= 4096


def test_the_layer_and_the_image_pin_the_versions_that_the_tests_run_with() -> None:
    tested = _pins(ROOT / "requirements.txt")

    for requirements in ("functions/requirements.txt", "longhaul/runner/requirements.txt"):
        for package, version in _pins(ROOT / requirements).items():
            assert tested[package] == version, f"{requirements}: {package}"


def _pins(file: Path) -> dict[str, str]:
    lines = (re.split("[;#]", line)[0].strip() for line in file.read_text().splitlines())
    pairs = (line.partition("==") for line in lines if line)
    return {package.partition("[")[0]: version for package, _, version in pairs}
