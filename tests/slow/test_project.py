"""A project from `longhaul init` to the image of its jobs, as a new user makes it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.layers import ROOT
from tests.projects import make_wheel
from tests.slow.containers import build, docker

pytestmark = pytest.mark.slow

_LIMIT_S = 1200
# As the installed command, whose folder of programs hides no package.
_LONGHAUL = [sys.executable, "-P", "-m", "longhaul.cli.cli"]
_DOCKERFILE = "Dockerfile"
# In a process of its own: the CDK keeps a Node running in the one that imports it.
_LAY_OUT = """
import sys
from pathlib import Path
from longhaul.cdk.image import lay_out
from longhaul.config.project import load_project
folder, repository, project = map(Path, sys.argv[1:])
lay_out(folder, repository, load_project(project))
"""
_SUBMIT = ("submit", "--job", "count_rows_spark", "--param", "column=city", "--wait")


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
    return {**os.environ, "PYTHONPATH": str(ROOT)}


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
    make_wheel(wheels, "small_words", "def loud(word):\n    return word + '!'")
    (folder / "requirements.txt").write_text("--no-index\nsmall_words==1.0\n")
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
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    add_requirement(project, tmp_path / "wheels")
    code, said = longhaul(project, "test")
    assert code == 0, said
    assert "5 passed" in said

    job = project / "jobs" / "count_rows_spark.py"
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


def built(project: Path, folder: Path) -> str:
    """The image of the project's jobs."""
    places = [str(each) for each in (folder, ROOT, project)]
    subprocess.run([sys.executable, "-c", _LAY_OUT, *places], cwd=ROOT, check=True)
    return build("longhaul-project:test", "--file", str(folder / _DOCKERFILE), str(folder))


def layers_of(image: str) -> list[str]:
    layers: list[str] = json.loads(docker("image", "inspect", image))[0]["RootFS"]["Layers"]
    return layers


def printed(image: str, code: str) -> str:
    """The output of a Python program in a container of the image, as a task runs it."""
    return docker("run", "--rm", "--read-only", image, "python", "-c", code)


def test_the_image_of_a_project_finds_its_jobs_and_adds_one_layer(
    job_image: str, project: Path, tmp_path: Path
) -> None:
    image = built(project, tmp_path / "image")

    code = (
        "from longhaul.runner.loading import find_job;"
        "print(find_job('count_rows', None).load({'column': 'x'}, lambda: None).params)"
    )
    assert printed(image, code) == "column='x'"
    assert layers_of(image)[:-1] == layers_of(job_image)


def test_a_requirement_is_in_the_image_and_a_changed_job_rebuilds_the_last_layer_alone(
    job_image: str, project: Path, tmp_path: Path
) -> None:
    (project / "requirements.txt").write_text(
        "titlecase==2.4.1 \\\n"
        "    --hash=sha256:7d83a277ccbbda11a2944e78a63e5ccaf3d32f828c594312e4862f9a07f635f5\n"
    )
    image = built(project, tmp_path / "image")
    before = layers_of(image)
    assert before[:-3] == layers_of(job_image)
    assert printed(image, "from titlecase import titlecase; print(titlecase('a job'))") == "A Job"

    job = project / "jobs" / "count_rows.py"
    job.write_text(f"{job.read_text()}\n# changed\n")
    after = layers_of(built(project, tmp_path / "again"))
    assert [a == b for a, b in zip(before, after, strict=True)] == [
        *[True] * (len(before) - 1),
        False,
    ]
