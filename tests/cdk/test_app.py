"""The app as people run it: a process of its own, on a machine that has nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longhaul.cdk.app import build
from longhaul.config.errors import SettingsError
from tests.cdk.synthesis import NO_COPIES, Synthesis, synthesize
from tests.layers import ROOT
from tests.patience import DEADLINE_S

# jsii unpacks 200 MB once; without a home it must be told where they are.
UNPACKED = Path.home() / ".cache" / "aws" / "jsii" / "package-cache"


def run_app(
    folder: Path, context: object = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/nonexistent",
        "HOME": "/dev/null",  # no folder, and root cannot make it one
        "CDK_OUTDIR": str(folder),
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(UNPACKED),
        **variables,
    }
    if context is not None:
        environment["CDK_CONTEXT_JSON"] = json.dumps({"longhaul": context})
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_the_app_synthesizes_without_node_docker_credentials_or_a_home(
    usual: Synthesis, tmp_path: Path
) -> None:
    done = run_app(tmp_path / "cdk.out")

    assert (done.returncode, done.stderr) == (0, "")
    assert Synthesis(tmp_path / "cdk.out").masked == usual.masked


def test_a_wrong_setting_ends_the_app_with_a_message_and_no_traceback(tmp_path: Path) -> None:
    # As text, which is how the CDK CLI passes `-c longhaul='{…}'`.
    context = json.dumps({"lease": {"stop_timeout_s": 300}})

    done = run_app(tmp_path / "cdk.out", context)

    assert done.returncode == 2
    assert done.stderr == (
        "longhaul.lease.stop_timeout_s: is 300; input should be less than or equal to 120\n"
    )


@pytest.mark.parametrize(
    ("made_by", "says"),
    [({}, True), ({"LONGHAUL_CHECKED": "1"}, False)],
    ids=["cdk alone", "longhaul deploy"],
)
def test_a_bare_cdk_deploy_names_the_checks_that_it_leaves_out(
    tmp_path: Path, made_by: dict[str, str], *, says: bool
) -> None:
    wrong = json.dumps({"lease": {"stop_timeout_s": 300}})  # ends before the template is made

    done = run_app(tmp_path / "cdk.out", wrong, CDK_CLI_VERSION="2.1000.0", **made_by)

    assert done.returncode == 2
    assert ("run `longhaul check` first" in done.stderr) == says


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "advanced.on_object.request: colour: unknown field"),
        (
            {"output": "s3://<data-bucket>/incoming/{object.id}/"},
            "advanced.on_object.request: output: is below incoming/, so each of its files",
        ),
        (
            {"outputs": {"report": "s3://<data-bucket>/incoming/{object.id}/"}},
            "advanced.on_object.request: outputs.report: is below incoming/",
        ),
        (
            {"output": "table://longhaul/files", "mode": "append"},
            "advanced.on_object.request: output: is below tables/, so each of its files",
        ),
    ],
)
def test_a_trigger_whose_jobs_could_not_run_or_would_start_each_other_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    request = {
        "job": "flights_clean",
        "inputs": {"flights": "{object}"},
        "output": "s3://<data-bucket>/clean/{object.id}/",
        **changes,
    }
    prefix = "tables/" if "table:" in str(request["output"]) else "incoming/"
    stages = [{"advanced": {"on_object": {"prefix": prefix, "request": request}}}]

    with pytest.raises(SettingsError) as refused:
        build(outdir=str(tmp_path), context={**NO_COPIES, "longhaul": {"stages": stages}})

    assert str(refused.value).startswith(f"longhaul.stages.0.{message}")


def test_triggers_that_would_start_each_other_are_refused(tmp_path: Path) -> None:
    def stage(name: str, prefix: str, to: str) -> dict[str, Any]:
        output = f"s3://<data-bucket>/{to}{{object.id}}/"
        request = {"job": "flights_clean", "inputs": {"flights": "{object}"}, "output": output}
        return {"name": name, "advanced": {"on_object": {"prefix": prefix, "request": request}}}

    stages = [stage("one", "a/", "b/"), stage("two", "b/", "a/")]

    with pytest.raises(SettingsError, match="so each of its files would start a job of two"):
        build(outdir=str(tmp_path), context={**NO_COPIES, "longhaul": {"stages": stages}})


def test_the_local_profile_changes_no_resource_apart_from_stages_and_engines(
    usual: Synthesis, tmp_path: Path
) -> None:
    profile = json.loads((ROOT / "longhaul/cli/profile.json").read_text())["longhaul"]

    del profile["stages"][0]["advanced"]["notify"]
    local = synthesize(tmp_path, profile | {"emr_serverless": None, "sizes": {}})

    assert {name: resource["Type"] for name, resource in local.template["Resources"].items()} == {
        name: resource["Type"] for name, resource in usual.template["Resources"].items()
    }
