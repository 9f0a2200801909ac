"""The app as somebody runs it: a process of its own, on a machine that has nothing."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from app import REPOSITORY
from tests.infra.synthesis import Synthesis

# Unpacked once for all of them: jsii would unpack 200 MB into each new home.
UNPACKED = {"JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(Path.home() / ".cache" / "aws" / "jsii" / "package-cache")}


def run_app(
    folder: Path, context: object = None, unpacked: Mapping[str, str] = UNPACKED
) -> subprocess.CompletedProcess[str]:
    home = folder / "home"
    home.mkdir()
    environment = {"PATH": "/nonexistent", "HOME": str(home), "CDK_OUTDIR": str(folder / "cdk.out"), **unpacked}
    if context is not None:
        environment["CDK_CONTEXT_JSON"] = json.dumps({"longhaul": context})
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=REPOSITORY,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_app_synthesizes_without_node_docker_credentials_or_a_home(usual: Synthesis, tmp_path: Path) -> None:
    done = run_app(tmp_path, unpacked={})

    assert (done.returncode, done.stderr) == (0, "")
    assert Synthesis(tmp_path / "cdk.out").masked == usual.masked


@pytest.mark.parametrize("as_text", [False, True], ids=["object", "text"])
def test_a_wrong_setting_ends_the_app_with_a_message_and_no_traceback(tmp_path: Path, *, as_text: bool) -> None:
    context = {"lease": {"stop_timeout_s": 300}}

    done = run_app(tmp_path, json.dumps(context) if as_text else context)

    assert done.returncode == 2
    assert done.stderr == ("longhaul.lease.stop_timeout_s: is 300; input should be less than or equal to 120\n")


def test_settings_too_long_for_a_function_are_refused_before_a_deploy_fails(tmp_path: Path) -> None:
    done = run_app(tmp_path, {"stages": [{"name": f"stage-{number}"} for number in range(12)]})

    assert done.returncode == 2
    assert done.stderr.startswith("longhaul: needs ")
    assert "use fewer stages or buckets" in done.stderr


def test_the_local_profile_changes_numbers_only_apart_from_the_demos_stages(usual: Synthesis, tmp_path: Path) -> None:
    profile = json.loads((REPOSITORY / "local" / "profile.json").read_text())["longhaul"]

    # And apart from the second engine, which is tried here and asked for elsewhere.
    done = run_app(tmp_path, profile | {"stages": profile["stages"][:1], "emr_serverless": None})

    assert (done.returncode, done.stderr) == (0, "")
    local = Synthesis(tmp_path / "cdk.out").template
    assert {name: resource["Type"] for name, resource in local["Resources"].items()} == {
        name: resource["Type"] for name, resource in usual.template["Resources"].items()
    }
