"""A project from `longhaul init` to the image of its jobs, as a new user makes it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from console.acceptance import cases
from console.cli import app
from console.errors import ExitStatus
from console.synth import REPOSITORY, synth
from infra.image import PROJECT_DOCKERFILE, lay_out
from infra.project import VARIABLE, load_project
from tests.projects import make_wheel
from tests.slow.containers import build, docker, why_no_containers

pytestmark = pytest.mark.slow

_LIMIT_S = 600
# As the installed command, whose folder of programs hides no package.
_LONGHAUL = [sys.executable, "-P", "-m", "console.cli"]
_SUBMIT = ("submit", "--job", "count_rows", "--param", "column=city", "--wait")


def longhaul(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run a command in a folder; its exit code, and all that it says."""
    done = subprocess.run(
        [*_LONGHAUL, *arguments],
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}


@contextmanager
def up(folder: Path) -> Iterator[None]:
    with subprocess.Popen(
        [*_LONGHAUL, "up", "--port", "0"],
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert "DailyFlights-main-jobs" in process.stdout.readline()
            yield
        finally:
            process.terminate()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "daily-flights"
    code, said = longhaul(tmp_path, "init", "daily-flights")
    assert code == 0, said
    (folder / "rows.csv").write_text("city,km\nOslo,3\nRome,5\nOslo,4\n")
    return folder


def submitted(folder: Path, output: str) -> tuple[int, str]:
    rows = f"rows=file://{folder}/rows.csv"
    return longhaul(folder, *_SUBMIT, "--input", rows, "--output", f"s3://longhaul-data/{output}/")


def add_requirement(folder: Path, wheels: Path) -> None:
    """A module from a wheel, a helper of jobs with it that Spark's workers run, and its test."""
    wheel = make_wheel(wheels, "small_words", "def loud(word):\n    return word + '!'")
    (folder / "requirements.txt").write_text(f"--no-index\n{wheel.as_uri()}\n")
    (folder / "jobs" / "_words.py").write_text(
        "from pyspark.sql import functions as F\n"
        "from small_words import loud\n\n\n"
        "@F.udf\n"
        "def shout(word):\n"
        "    return loud(word)\n"
    )
    (folder / "tests" / "test_words.py").write_text(
        "import _words\n\n\n"
        "def test_words_are_loud(spark):\n"
        "    frame = spark.createDataFrame([('Oslo',)], ['city'])\n"
        "    assert frame.select(_words.shout('city')).first()[0] == 'Oslo!'\n"
    )


def test_a_new_project_is_tested_runs_and_picks_up_a_changed_job_and_a_requirement(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_requirement(project, tmp_path / "wheels")
    code, said = longhaul(project, "test")
    assert code == 0, said
    assert "3 passed" in said

    job = project / "jobs" / "count_rows.py"
    with up(project):
        code, said = submitted(project, "first")
        assert code == 0, said
        # Without a restart: other code, which needs what the requirement brings.
        job.write_text(
            job.read_text()
            .replace("import Params as BaseParams", "import Params as BaseParams\n\nimport _words")
            .replace(
                'job.progress("counting")',
                "raise PermanentJobError(rows.select(_words.shout(job.params.column)).first()[0])",
            )
        )
        code, said = submitted(project, "second")
        assert code == 1
        assert "permanent: Oslo!" in said
        verified(project, tmp_path / "page.html", monkeypatch)

    # What the image could not install is refused before anything is built.
    code, said = longhaul(project, "deploy")
    assert code == ExitStatus.USAGE
    assert f"{project}/requirements.txt:2: file:" in said


def verified(folder: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`longhaul verify` of the project's stack, with two of its cases: all take minutes."""
    few = [case for case in cases.CASES if case.name in ("success", "invalid")]
    monkeypatch.setattr(cases, "CASES", few)
    monkeypatch.setenv(VARIABLE, str(folder))  # the command sets it; restored with the test
    done = CliRunner().invoke(app, ["--project", str(folder), "verify", "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert "stack DailyFlights on the embedded AWS" in done.stderr
    verdicts = [line.split("\t")[:2] for line in done.stdout.splitlines()]
    for name in ("success", "invalid", "nothing left"):
        assert ["passed", name] in verdicts


def test_the_stack_of_a_project_is_synthesized_for_a_deployment(
    project: Path, tmp_path: Path
) -> None:
    assembly = synth(tmp_path / "out", profile=None, project=project)
    template: dict[str, Any] = json.loads((assembly / "DailyFlights.template.json").read_text())
    kinds = [each["Type"] for each in template["Resources"].values()]
    assert kinds.count("AWS::ECS::TaskDefinition") == 4
    (image,) = (each for each in assembly.glob("asset.*/") if (each / PROJECT_DOCKERFILE).exists())
    assert (image / "project" / "jobs" / "count_rows.py").exists()
    assert not (image / "project" / "longhaul.toml").exists()


def test_the_image_of_a_project_finds_its_jobs_and_adds_little(
    job_image: str, project: Path, tmp_path: Path
) -> None:
    assert why_no_containers() is None
    lay_out(tmp_path / "image", REPOSITORY, load_project(project))
    tag = build(
        "longhaul-project:test",
        "--file",
        str(tmp_path / "image" / PROJECT_DOCKERFILE),
        str(tmp_path / "image"),
    )
    code = "from jobs.loading import load; print(load('count_rows', {'column': 'x'}, None).params)"
    assert docker("run", "--rm", "--read-only", tag, "python", "-c", code) == "column='x'"
    layers = [
        json.loads(docker("image", "inspect", each))[0]["RootFS"]["Layers"]
        for each in (job_image, tag)
    ]
    assert layers[1][:-1] == layers[0]
