"""What `longhaul up` deploys of a project that has the settings of a new one."""

import json
import os
import re
from pathlib import Path

from longhaul.cdk.app import build
from longhaul.cli import premade
from longhaul.cli.local_project import local_context
from longhaul.config.project import load_project
from longhaul.config.settings import CONTEXT_KEY
from tests.cdk.synthesis import NO_COPIES
from tests.projects import make_project


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
