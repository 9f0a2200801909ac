"""`longhaul new` writes a job whose test passes, and overwrites nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from longhaul.cli.cli import app
from longhaul.cli.commands.new import IN_PARTS, PLAIN, write_job
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.config.project import Project
from longhaul.config.project_file import VARIABLE
from tests.layers import ROOT
from tests.projects import make_project

# Spark starts slowly on a machine that is busy with other tests.
LIMIT_S = 600


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p")


@pytest.mark.slow
def test_the_tests_of_new_jobs_pass_and_all_files_are_lint_clean(project: Project) -> None:
    files = [
        *write_job("orders", project),
        *write_job("months", project, IN_PARTS),
        *write_job("cities", project, PLAIN),
    ]

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "longhaul.cli.cli", "test", "-p", "no:cacheprovider"],
        cwd=project.folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "9 passed" in ran.stdout  # those of the project's first job, too
    for command in (["check"], ["format", "--check"]):
        ruff = [
            shutil.which("ruff") or str(Path(sys.executable).with_name("ruff")),
            *command,
            f"--config={ROOT / 'pyproject.toml'}",
            # As in a folder of jobs of ours: `lint.per-file-ignores` has their paths.
            "--config=lint.per-file-ignores={'*' = ['S101', 'INP001', 'ANN401']}",
            "--config=lint.isort.known-first-party=['longhaul', 'orders', 'months', 'cities']",
            *map(str, files),
        ]
        linted = subprocess.run(
            ruff, cwd=project.folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert linted.returncode == 0, linted.stdout


def test_the_command_says_what_it_wrote_and_how_to_use_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(project.folder))  # restored with the test
    said = CliRunner().invoke(app, ["--project", str(project.folder), "new", "orders"])

    assert said.exit_code == 0
    assert "written: jobs/orders.py" in said.stderr
    assert "longhaul test tests/test_orders.py" in said.stderr
    assert json.loads(said.stdout)["job"] == "orders"


def test_the_test_of_a_job_without_spark_passes_and_starts_none(project: Project) -> None:
    write_job("cities", project, PLAIN)
    (project.folder / "tests" / "test_last.py").write_text(
        "import sys\n\n\ndef test_no_spark_is_there() -> None:\n"
        "    assert 'pyspark' not in sys.modules\n"
    )
    ran = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "longhaul.cli.cli", "test", "-p", "no:cacheprovider"),
            *("tests/test_cities.py", "tests/test_last.py"),
        ],
        cwd=project.folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "3 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_job_in_parts_gets_a_message_with_its_parameters_and_is_not_plain(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(project.folder))  # restored with the test
    command = ["--project", str(project.folder), "new", "months", "--parts"]
    assert CliRunner().invoke(app, [*command, "--plain"]).exit_code == ExitStatus.USAGE
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0
    assert json.loads(said.stdout)["params"] == {"column": "city", "part": "month"}


@pytest.mark.parametrize(
    "name", ["", "Orders", "2nd", "_x", "a-b", "a/b", "../x", "class", "x" * 65, "a.b", "a\n"]
)
def test_a_name_that_cannot_be_a_module_is_refused(name: str, project: Project) -> None:
    with pytest.raises(CommandError, match="is no name for a job") as refused:
        write_job(name, project)
    assert refused.value.status is ExitStatus.USAGE


@pytest.mark.parametrize("there", ["jobs/orders.py", "tests/test_orders.py"])
def test_nothing_is_overwritten(project: Project, there: str) -> None:
    (project.folder / there).write_text("mine")
    with pytest.raises(CommandError, match=f"{there} exists already"):
        write_job("orders", project)
    assert (project.folder / there).read_text() == "mine"
    assert len([*project.folder.rglob("*orders.py")]) == 1


@pytest.mark.usefixtures("no_project")
def test_without_a_project_there_is_nowhere_to_write_it() -> None:
    said = CliRunner().invoke(app, ["new", "orders"])

    assert said.exit_code == ExitStatus.USAGE
    assert "`longhaul init DIR` makes one" in said.stderr
