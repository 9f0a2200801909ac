"""`longhaul submit` in a project checks parameters against the models of the project's jobs."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from longhaul.cli import extras
from tests.builders import body
from tests.cli.conftest import PLACE, World
from tests.projects import make_project

pytestmark = pytest.mark.usefixtures("no_project")

JOB = """\
from datetime import date

from longhaul.job import Job, Params

print("a word to nobody")


class Params(Params):
    day: date
    least: int = 1


def run(spark, job):
    pass
"""
WITH_A_UDF = (
    JOB
    + """
from pyspark.sql import functions as F

NOTHING = F.lit(None)

@F.udf("string")
def shout(text):
    return text.upper()
"""
)
CANNOT_BE_IMPORTED = "raise RuntimeError('no database')\n" + JOB
TOML = 'stack_name = "{}"\n[[stages]]\nname = "main"\n'


@pytest.fixture
def knowing(world: World) -> World:
    """A stack that has the project's jobs."""
    jobs = (*world.settings.jobs, "report", "early", "shout")
    known = world.settings.model_copy(update={"jobs": jobs})
    fresh = replace(world, settings=known)
    fresh.deploy()
    return fresh


def project(folder: Path, stack: str = "Longhaul") -> str:
    files = {
        "jobs__report.py": JOB,
        "jobs__early.py": CANNOT_BE_IMPORTED,
        "jobs__shout.py": WITH_A_UDF,
    }
    return str(make_project(folder, **{"longhaul.toml": TOML.format(stack)}, **files).folder)


def lines(*params: dict[str, object], job: str = "report") -> str:
    return "".join(f"{body(job_id=f'j-{n}', job=job, params=p)}\n" for n, p in enumerate(params))


def test_wrong_parameters_are_refused_with_their_line_before_anything_is_sent(
    knowing: World, tmp_path: Path
) -> None:
    given = lines({"day": "2026-01-31"}, {"day": "2026-02-30", "least": "many"}, {"dya": 1})
    done = knowing.run("--project", project(tmp_path / "p"), "submit", input=given)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "line 1" not in done.stderr
    assert re.search(r"line 2: params\.day: .*; params\.least: Input should be", done.stderr)
    assert re.search(r"line 3: params\.day: Field required; params\.dya: ", done.stderr)
    assert "nothing was sent" in done.stderr
    assert knowing.queued() == []


@pytest.mark.parametrize(
    ("endpoint", "way_out"),
    [
        (None, "`longhaul deploy` takes it there"),
        ("http://127.0.0.1:1", "the terminal of `longhaul up` says why"),
    ],
)
def test_job_of_the_project_that_the_stack_does_not_know_is_named_with_the_way_out(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    endpoint: str | None,
    way_out: str,
) -> None:
    here = replace(PLACE, endpoint=endpoint, embedded=endpoint is not None)
    monkeypatch.setattr("longhaul.cli.target.locate", lambda *_: here)
    given = lines({}) + lines({}, job="repotr")
    done = world.run("--project", project(tmp_path / "p"), "submit", input=given)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "line 1: job: unknown job;" in done.stderr
    assert f"jobs/report.py is there, and the stack does not have it: {way_out}" in done.stderr
    assert "jobs/repotr.py" not in done.stderr


def test_right_parameters_are_sent_as_they_are(knowing: World, tmp_path: Path) -> None:
    where = project(tmp_path / "p")
    options = ("--job", "report", "--output", "s3://longhaul-data/o/", "--param", "day=2026-01-31")
    done = knowing.run("--project", where, "submit", *options)
    assert done.exit_code == 0, done.stderr
    (message,) = knowing.queued()
    assert json.loads(message["Body"])["params"] == {"day": "2026-01-31"}


def test_a_job_whose_module_uses_a_session_is_checked_without_one(
    knowing: World, tmp_path: Path
) -> None:
    given = lines({"day": "no day"}, job="shout")
    done = knowing.run("--project", project(tmp_path / "p"), "submit", input=given)
    assert done.exit_code == 2
    assert "params.day: Input should be a valid date" in done.stderr


def test_a_job_that_cannot_be_imported_here_is_sent_unchecked_with_a_word(
    knowing: World, tmp_path: Path
) -> None:
    given = lines({"day": "no day"}, {}, job="early")
    done = knowing.run("--project", project(tmp_path / "p"), "submit", input=given)
    assert done.exit_code == 0, done.stderr
    why = "job: early.py:1: RuntimeError: no database"
    assert done.stderr.count(f"parameters of early are checked by its task alone: {why}") == 1


def test_parameters_that_no_spark_is_here_to_check_are_sent_with_the_line_that_installs_it(
    knowing: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: name != "pyspark" or None)
    done = knowing.run("--project", project(tmp_path / "p"), "submit", input=lines({}))
    assert done.exit_code == 0, done.stderr
    assert "parameters are checked by the tasks alone" in done.stderr
    assert "pip install 'longhaul-jobs[local]'" in done.stderr


def test_another_stacks_jobs_are_not_the_projects(knowing: World, tmp_path: Path) -> None:
    where = project(tmp_path / "p", stack="Other")
    done = knowing.run("--project", where, "submit", "--stack", "Longhaul", input=lines({}))
    assert done.exit_code == 0, done.stderr
