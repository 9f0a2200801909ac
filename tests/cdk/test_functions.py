import json
import re

import pytest
from aws_cdk.aws_lambda import RecursiveLoop

from longhaul.cdk.functions import allowed_loop
from longhaul.config.known import ROOM_FOR_SETTINGS
from longhaul.core.settings import RuntimeSettings
from tests.cdk.synthesis import Synthesis
from tests.cdk.test_locking import pins
from tests.layers import ROOT, engine_files


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
