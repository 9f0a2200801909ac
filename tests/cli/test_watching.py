"""What a running `longhaul up` takes of a project that changes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli.local.watching import Watch
from longhaul.config.project import Project
from longhaul.core.settings import VARIABLE
from tests.projects import make_project

pytestmark = pytest.mark.usefixtures("no_project")


class Stack:
    """Functions with the settings of a project, and what was said to its user."""

    def __init__(self, project: Project) -> None:
        self.variables = {VARIABLE: json.dumps({"jobs": list(project.job_names), "stages": []})}
        self.said: list[str] = []
        self.watch = Watch(project, self._change, self.said.append)

    def _change(self, name: str, change: Callable[[str], str]) -> None:
        self.variables[name] = change(self.variables[name])

    @property
    def settings(self) -> Any:
        return json.loads(self.variables[VARIABLE])


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "mine")


def test_a_new_job_and_one_that_is_gone_are_taken_while_it_runs(project: Project) -> None:
    stack = Stack(project)
    stack.watch.look()
    assert stack.said == []
    code = (project.jobs / "count_rows.py").read_text()
    (project.jobs / "second.py").write_text(code)
    stack.watch.look()
    assert stack.settings == {
        "jobs": ["count_rows", "count_rows_spark", "probe", "second", "sql"],
        "stages": [],
    }
    (project.jobs / "second.py").unlink()
    stack.watch.look()
    stack.watch.look()
    assert stack.settings["jobs"] == ["count_rows", "count_rows_spark", "probe", "sql"]
    assert stack.said == ["jobs that are new: second", "jobs that are gone: second"]


def test_a_new_job_that_could_never_run_is_refused_once_and_taken_when_it_is_right(
    project: Project,
) -> None:
    stack = Stack(project)
    (project.jobs / "second.py").write_text("def run(")
    for _ in range(2):
        stack.watch.look()
    (said,) = stack.said
    assert "second.py:1" in said
    assert "the jobs stay as they were until that is right" in said
    assert "second" not in stack.settings["jobs"]
    (project.jobs / "second.py").write_text((project.jobs / "count_rows.py").read_text())
    stack.watch.look()
    assert "second" in stack.settings["jobs"]


def test_settings_that_change_are_said_to_need_a_restart_once(project: Project) -> None:
    stack = Stack(project)
    project.file.write_text(f"{project.text}\n# changed\n")
    for _ in range(2):
        stack.watch.look()
    assert stack.said == [
        "longhaul.toml has changed: Ctrl-C and `longhaul up` again take it; what is stored stays"
    ]
