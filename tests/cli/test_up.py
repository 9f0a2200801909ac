"""`longhaul up`, as far as it comes without a synthesis."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from longhaul.cli.cli import app
from longhaul.cli.errors import ExitStatus
from longhaul.local.state.store import FOLDER, Store
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

    done = CliRunner().invoke(app, command)
    assert done.exit_code == ExitStatus.FAILED
    said = re.sub(r"\s+", " ", done.stderr)
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
