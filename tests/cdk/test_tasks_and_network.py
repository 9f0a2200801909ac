import json
import re
from typing import Any

from tests.cdk.synthesis import Synthesis
from tests.layers import DEMO_JOBS, ROOT, engine_files


def test_the_disk_that_every_task_has_is_not_requested(varied: Synthesis) -> None:
    # Fargate refuses an explicit 20 GiB.
    assert "EphemeralStorage" not in varied.resources("AWS::ECS::TaskDefinition")["SparkSmall"]


def test_the_image_is_built_as_the_settings_say(usual: Synthesis, varied: Synthesis) -> None:
    """By an option of BuildKit: without the setting any builder will do."""

    def source(found: Synthesis) -> dict[str, Any]:
        manifest = json.loads(found.template_file.with_name("Longhaul.assets.json").read_text())
        (image,) = manifest["dockerImages"].values()
        asked: dict[str, Any] = image["source"]
        return asked

    (output,) = source(varied)["dockerOutputs"]
    assert output.startswith("type=docker,")
    assert "compression=zstd" in output
    assert "dockerOutputs" not in source(usual)
    assert source(varied)["dockerBuildArgs"] == {"PIP_INDEX_URL": "https://pypi.example.com/simple"}
    assert "dockerBuildArgs" not in source(usual)


def test_a_stopped_task_has_the_stop_timeout_of_the_settings(
    usual: Synthesis, varied: Synthesis
) -> None:
    for synthesis, stop_timeout_s in ((usual, 120), (varied, 60)):
        for task in synthesis.resources("AWS::ECS::TaskDefinition").values():
            assert task["ContainerDefinitions"][0]["StopTimeout"] == stop_timeout_s


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
    assert others == engine_files("core", "runner") | demo | {
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


def test_the_zones_of_the_own_network_may_be_named(guarded: Synthesis) -> None:
    assert {
        each["AvailabilityZone"] for each in guarded.resources("AWS::EC2::Subnet").values()
    } == {
        "eu-central-1b",
        "eu-central-1c",
    }


def test_an_existing_network_is_used_as_it_is(varied: Synthesis) -> None:
    assert not varied.resources("AWS::EC2::VPC")
    assert varied.only("AWS::EC2::SecurityGroup")["VpcId"] == "vpc-0123456789abcdef0"

    job = varied.definition["States"]["RunUnderLease"]["Branches"][0]["States"]["RunOnFargate"]
    assert job["Parameters"]["NetworkConfiguration"]["AwsvpcConfiguration"] == {
        "AssignPublicIp": "DISABLED",
        "SecurityGroups": ["<NetworkTasks.GroupId>"],
        "Subnets": ["subnet-0123456789abcdef0"],
    }
