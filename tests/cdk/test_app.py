"""The app as people run it: a process of its own, on a machine that has nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cdk.synthesis import Synthesis, synthesize
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


@pytest.mark.parametrize(
    ("made_by", "says"),
    [
        ({}, False),
        ({"CDK_CLI_VERSION": "2.1000.0"}, True),
        ({"CDK_CLI_VERSION": "2.1000.0", "LONGHAUL_CHECKED": "1"}, False),
    ],
    ids=["by hand", "cdk alone", "longhaul deploy"],
)
def test_a_wrong_setting_ends_the_app_and_a_bare_cdk_deploy_names_the_checks_that_it_leaves_out(
    tmp_path: Path, made_by: dict[str, str], *, says: bool
) -> None:
    # As text, which is how the CDK CLI passes `-c longhaul='{…}'`.
    context = json.dumps({"lease": {"stop_timeout_s": 300}})

    done = run_app(tmp_path / "cdk.out", context, **made_by)

    assert done.returncode == 2
    wrong = "longhaul.lease.stop_timeout_s: is 300; input should be less than or equal to 120\n"
    assert done.stderr.endswith(wrong)
    assert ("run `longhaul check` first" in done.stderr) == says != (done.stderr == wrong)


def test_the_local_profile_changes_no_resource_apart_from_stages_and_engines(
    usual: Synthesis, tmp_path: Path
) -> None:
    profile = json.loads((ROOT / "longhaul/cli/profile.json").read_text())["longhaul"]

    del profile["stages"][0]["advanced"]["notify"]
    local = synthesize(tmp_path, profile | {"emr_serverless": None, "sizes": {}})

    assert {name: resource["Type"] for name, resource in local.template["Resources"].items()} == {
        name: resource["Type"] for name, resource in usual.template["Resources"].items()
    }
