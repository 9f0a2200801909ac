"""The app as people run it: a process of its own, on a machine that has nothing."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack  # after `longhaul.cdk`, which tells jsii where Node is
from aws_cdk.assertions import Template
from aws_cdk.aws_stepfunctions import CfnStateMachine
from pydantic import JsonValue

from longhaul.cdk import Longhaul
from longhaul.cdk.app import build
from longhaul.cli import premade
from longhaul.cli.local_project import local_context
from longhaul.config.project import load_project
from longhaul.config.settings import CONTEXT_KEY
from tests.cdk.conftest import GUARDED, VARIED, WITH_ENGINES
from tests.cdk.synthesis import NO_COPIES, Synthesis, synthesize
from tests.layers import ROOT
from tests.patience import DEADLINE_S
from tests.projects import make_project

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


# The example of an app of somebody else's, and the page about the construct.


def looked_up(app: App) -> list[Any]:
    """What the synthesis would ask of AWS, with credentials."""
    manifest = Path(app.synth().directory, "manifest.json")
    found: list[Any] = json.loads(manifest.read_text()).get("missing", [])
    return found


def test_the_stack_of_the_page_synthesizes() -> None:
    """Each snippet of Python, in the order of the page, in one namespace."""
    page = (ROOT / "docs" / "construct.md").read_text().partition("\n## The client")[0]
    snippets = re.findall(r"(?ms)^```python$(.*?)^```$", page)
    names: dict[str, Any] = {"app": App(context=NO_COPIES)}
    assert len(snippets) > 1

    for snippet in snippets:
        exec(snippet, names)  # noqa: S102 - ours

    stack = names["stack"]
    assert isinstance(stack, Stack)
    assert isinstance(names["longhaul"], Longhaul)
    Template.from_stack(stack)
    assert looked_up(names["app"]) == []


# What `longhaul up` deploys of a project that has the settings of a new one.


def test_it_is_what_the_cdk_makes_of_a_new_project(tmp_path: Path) -> None:
    project = make_project(tmp_path / "new-project")
    context = local_context(project)
    context[CONTEXT_KEY]["architecture"] = "x86_64"
    build(outdir=str(tmp_path), context=NO_COPIES | context, project=project).synth()
    template, assets = (
        json.loads((tmp_path / f"{premade.STACK}.{part}.json").read_text())
        for part in ("template", "assets")
    )
    for resource in template["Resources"].values():
        resource.pop("Metadata", None)  # paths of the machine
    named = {each["displayName"]: each for each in assets["files"].values()}
    code = named["Default/Heartbeat/Code"]
    code["source"]["path"] = premade.CODE
    (there,) = code["destinations"].values()  # its name tells the place of the checkout
    code["destinations"] = {"here": there}
    made = {
        "settings": premade.settings_of(project, context),
        "template": template,
        "assets": {"files": {premade.CODE: code}},
    }
    text = re.sub(r"\b[0-9a-f]{64}\b", "<asset>", json.dumps(made, indent=1))
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        premade.FILE.write_text(f"{text}\n")

    assert json.loads(text) == json.loads(premade.FILE.read_text())


def test_it_is_used_under_other_names_and_for_no_other_settings(tmp_path: Path) -> None:
    project = make_project(tmp_path / "my-new-project", **{"jobs/mine.py": "def run(job): ..."})
    assert premade.write(tmp_path / "out", project, local_context(project))
    text = (tmp_path / "out" / "MyNewProject.template.json").read_text()
    assert premade.STACK not in text.replace(project.stack_name, "")
    assert r"[\"count_rows\",\"count_rows_spark\",\"mine\",\"probe\",\"sql\"]" in text
    assert '"/tables/mynewproject"' in text
    for table in ('[[stages]]\nname = "second"', "[env.local]\nlog_retention_days = 3"):
        project.file.write_text(f"{project.text}\n{table}\n")
        changed = load_project(project.folder)
        assert not premade.write(tmp_path / "out", changed, local_context(changed))


# What CloudFormation accepts and AWS refuses later, by rules that were reproduced on AWS.
#
# https://github.com/badmintoncryer/cdk-preflight


rules: Any = pytest.importorskip(
    "cdk_preflight",
    reason="cdk-preflight is not installed: pip install -r requirements-dev.txt",
)


@pytest.mark.parametrize(
    "settings",
    [
        # Both other engines, and what a platform team may ask for.
        pytest.param({**GUARDED, **WITH_ENGINES}, id="all"),
        pytest.param({}, id="usual", marks=pytest.mark.slow),
        pytest.param(VARIED, id="varied", marks=pytest.mark.slow),
    ],
)
def test_cdk_preflight_finds_nothing(tmp_path: Path, settings: dict[str, JsonValue]) -> None:
    assert findings(synthesize(tmp_path, settings, more=rules.Preflight.apply)) == []


def test_cdk_preflight_finds_a_planted_error(tmp_path: Path) -> None:
    """The report is empty where it finds nothing, as if it had not run."""

    def plant(app: App) -> None:
        machine = next(each for each in app.node.find_all() if isinstance(each, CfnStateMachine))
        machine.definition_string = json.dumps(
            {"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "Gone"}}}
        )
        rules.Preflight.apply(app)

    assert "pf-sfn-asl-missing-state" in findings(synthesize(tmp_path, {}, more=plant))


def findings(synthesis: Synthesis) -> list[str]:
    return [
        violation["ruleName"]
        for report in synthesis.report["pluginReports"]
        for violation in report["violations"]
        if violation["ruleName"].startswith("pf-")
    ]
