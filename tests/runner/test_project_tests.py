"""`longhaul test`: a project's jobs are imported as a task imports them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.cli.local_project import python_environment
from longhaul.config.project import Project
from tests.layers import ROOT

JOB = """
from pyspark.sql.functions import col, udf
from longhaul.job import Job
from _words import twice

WORD = col("word")

@udf("string")
def shout(text):
    return twice(helper(text))

def helper(text):
    return text.upper()

def run(spark, job):
    job.write(spark.createDataFrame([("a",)], "word string").select(shout(WORD).alias("word")))
"""
WORDS = """
from pyspark.sql.functions import udf

LENGTH = udf(len, "int")

def twice(text):
    return text * 2
"""
TEST = """
import words

def test_words(spark, make_job, written):
    job = make_job({})
    words.run(spark, job)
    assert written(job) == [{"word": "AA"}]
    assert words.helper("a") == "A"
"""


def test_a_job_that_makes_udfs_at_its_top_is_tested_as_a_task_runs_it(tmp_path: Path) -> None:
    for name, text in (
        ("jobs/words.py", JOB),
        ("jobs/_words.py", WORDS),
        ("tests/test_words.py", TEST),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ
        | python_environment(Project(tmp_path, "", None, {}))
        | {"TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert [each.name for each in scratch.iterdir() if each.name.startswith("spark-")] == []


# tests/cli/test_project.py has the command without Spark, and test_demo_jobs.py the demo's tests
# in a session that is warm. The other installs a driver and starts a PostgreSQL.
@pytest.mark.slow
@pytest.mark.parametrize("example", ["demo", "postgres"])
def test_the_tests_of_an_example_pass_as_those_of_any_project(example: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "longhaul.cli.cli", "test", "-p", "no:cacheprovider"],
        cwd=ROOT / "examples" / example,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
