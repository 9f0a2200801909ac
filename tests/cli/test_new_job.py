"""`longhaul new-job` writes a job whose test passes, and overwrites nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from longhaul.cli.cli import app
from longhaul.cli.commands import new_job as module
from longhaul.cli.commands.new_job import write_job
from longhaul.cli.errors import CommandError, ExitStatus
from tests.layers import ROOT

# Spark starts slowly on a machine that is busy with other tests.
LIMIT_S = 600


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The parts of the repository that a job and its test need."""
    for folder in ("longhaul", "examples", "simulation"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    (tmp_path / "tests" / "runner").mkdir(parents=True)
    for file in (
        "pyproject.toml",
        "tests/conftest.py",
        "tests/left_behind.py",
        "tests/builders.py",
        "tests/runner/conftest.py",
    ):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


@pytest.mark.slow
def test_the_test_of_a_new_job_passes_and_both_files_are_lint_clean(
    checkout: Path,
) -> None:
    job, test = write_job("count_rows", checkout)

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
    for command in (["check"], ["format", "--check"]):
        ruff = [
            shutil.which("ruff") or str(Path(sys.executable).with_name("ruff")),
            *command,
            str(job),
            str(test),
        ]
        linted = subprocess.run(
            ruff, cwd=checkout, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert linted.returncode == 0, linted.stdout


def test_the_command_says_what_it_wrote_and_how_to_use_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "sources", lambda: checkout)

    said = CliRunner().invoke(app, ["new-job", "orders"])

    assert said.exit_code == 0
    assert "written: longhaul/catalogue/orders.py" in said.stderr
    assert "make setup && .venv/bin/pytest tests/runner/test_orders.py" in said.stderr
    assert json.loads(said.stdout)["job"] == "orders"


@pytest.mark.parametrize(
    "name", ["", "Orders", "2nd", "_x", "a-b", "a/b", "../x", "class", "x" * 65, "a.b", "a\n"]
)
def test_a_name_that_cannot_be_a_module_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is no name for a job") as refused:
        write_job(name, tmp_path)
    assert refused.value.status is ExitStatus.USAGE


def test_a_word_of_python_is_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="a word of Python's own"):
        write_job("class", tmp_path)


@pytest.mark.parametrize("there", ["longhaul/catalogue/orders.py", "tests/runner/test_orders.py"])
def test_nothing_is_overwritten(checkout: Path, there: str) -> None:
    (checkout / there).write_text("mine")
    with pytest.raises(CommandError, match=f"{there} exists already"):
        write_job("orders", checkout)
    assert (checkout / there).read_text() == "mine"
    assert len([*checkout.rglob("orders.py"), *checkout.rglob("test_orders.py")]) == 1


def test_a_package_without_a_checkout_has_no_catalogue_to_write_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "is_installed", lambda: True)

    said = CliRunner().invoke(app, ["new-job", "orders"])

    assert said.exit_code == ExitStatus.USAGE
    assert "`longhaul init DIR` makes one" in said.stderr
