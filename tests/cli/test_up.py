"""`longhaul up`: as far as it comes without a synthesis, what it prints, watches and shows."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from longhaul.cli.cli import app
from longhaul.cli.errors import ExitStatus
from longhaul.cli.local import training
from longhaul.cli.local.ready import say_ready
from longhaul.cli.local.training import BackgroundTraining
from longhaul.cli.local.watching import Watch
from longhaul.cli.terminal.output import Output
from longhaul.config.project import Project
from longhaul.core.settings import VARIABLE, PathPolicy
from longhaul.local.state.store import FOLDER, Store
from tests.builders import settings, stage
from tests.cli.conftest import ran
from tests.projects import make_project

pytestmark = pytest.mark.usefixtures("no_project")


def test_state_of_another_stack_ends_a_start_with_the_way_out_and_fresh_begins_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "mine")
    Store(project.work_dir / FOLDER, "Other").open().close()
    monkeypatch.setattr("longhaul.cli.local.serve.BackgroundTraining", Nothing)
    monkeypatch.setattr("longhaul.cli.local.serve.local_synth", synthesis_begins)
    command = ["--project", str(project.folder), "up", "--port", "0"]

    said = re.sub(r"\s+", " ", ran(*command, code=ExitStatus.FAILED).stderr)
    assert "stack Other; this is format" in said
    assert "`longhaul up --fresh` begins without it" in said

    begun = CliRunner().invoke(app, [*command, "--fresh"])
    assert "the synthesis begins" in begun.stderr
    Store(project.work_dir / FOLDER, "Mine").open().close()


class Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def synthesis_begins(*_: object) -> Path:
    raise RuntimeError("the synthesis begins")


# What `longhaul up` prints when it is ready.


SETTINGS = settings(
    stages=(stage(slots=2),),
    paths=PathPolicy(data_bucket="data"),
    jobs=("flights", "sql"),
)
PLACE = {"endpoint": "http://127.0.0.1:4566", "region": "us-east-1"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_program_gets_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    say_ready(Output(), SETTINGS, **PLACE, outputs={"DataBucketName": "data"})
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == PLACE | {"outputs": {"DataBucketName": "data"}}


def test_a_person_gets_what_there_is_and_what_to_type_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    out = Output()
    out.data = Console(file=terminal, width=100, color_system=None, highlight=False)
    say_ready(out, SETTINGS, **PLACE, outputs={"DataBucketName": "data"})
    assert terminal.getvalue() == (
        "stages  main\n"
        "jobs    flights, sql\n"
        "bucket  data\n"
        "next, in another terminal:\n"
        "  longhaul submit --job sql --param 'query=SELECT 1 AS one'"
        " --output data:one/ --wait\n"
        "  longhaul status\n"
        "  longhaul logs JOB\n"
        "  longhaul console     (a page in the browser)\n"
    )


# What a running `longhaul up` takes of a project that changes.


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


# The cache that is made in the background.


def test_training_runs_in_the_background_and_ends_with_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endless = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(training, "_COMMAND", endless)
    before = set(psutil.Process().children())
    with BackgroundTraining() as endless_one:
        (child,) = set(psutil.Process().children()) - before
        assert child.is_running()
        assert endless_one.is_at_work
    assert set(psutil.Process().children()) == before
