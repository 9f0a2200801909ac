"""What others import has types, also for a strict type checker, and its docstrings on the site."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.layers import ROOT

pytestmark = pytest.mark.slow

CONSUMER = """
from pathlib import Path

from longhaul.client import Client, JobDeadError, JobResult, SubmittedJob
from longhaul.job import Job, Params as Base
from longhaul.testing import Emitted, MakeJob, Written

from longhaul.cdk import Longhaul, Settings, StageDeployment

from aws_cdk import App, Stack
from pyspark.sql import SparkSession


class Params(Base):
    least: int = 1


def run(spark: SparkSession, job: Job[Params]) -> None:
    days = job.read("flights", spark.read.format("parquet"))
    reveal_type(job.write(days.where(f"flights >= {job.params.least}"), partition_by=["day"]))


def test_run(
    spark: SparkSession, make_job: MakeJob, written: Written, emitted: Emitted, tmp_path: Path
) -> None:
    job = make_job({"flights": tmp_path}, Params(least=2))
    run(spark, job)
    reveal_type(written(job))
    reveal_type(emitted(job))


def produce() -> int:
    client = Client(stack="Longhaul")
    jobs: list[SubmittedJob] = client.submit_many([{"job": "sql", "output": "s3://data/out/"}])
    try:
        result: JobResult = client.result(jobs[0], timeout=60.0)
    except JobDeadError as dead:
        reveal_type(dead.status.error)
        return 0
    return sum(file.size for file in result.files)


stack = Stack(App(), "Jobs")
stages = (StageDeployment(name="nightly", slots=2),)
longhaul = Longhaul(stack, "Longhaul", settings=Settings(stages=stages))
reveal_type(longhaul.queue("nightly").queue_url)
"""
WRONG = """
from longhaul.client import Client
from longhaul.job import Job, Params

client = Client(stack=1)
client.submit("sql")
client.submit_later({})


def run(job: Job[Params]) -> None:
    job.writes(None)
    job.params.most
"""


def checked(folder: Path, code: str) -> str:
    """What mypy says of a module that finds Longhaul as an installed package."""
    site = folder / "site"
    site.mkdir()
    # As in site-packages: py.typed counts there, and not in a checkout.
    (site / "longhaul").symlink_to(ROOT / "longhaul")
    (folder / "consumer.py").write_text(code)
    command = [sys.executable, "-P", "-m", "mypy", "--strict", "--config-file=", "consumer.py"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_strict_consumer_of_all_public_modules_has_no_errors(tmp_path: Path) -> None:
    said = checked(tmp_path, CONSUMER)
    assert "Success: no issues found in 1 source file" in said, said
    types = ('"int"', '"list[dict[str, Any]]"', '"str | None"', '"str"')
    assert all(each in said.replace("builtins.", "") for each in types), said


def test_wrong_uses_are_found(tmp_path: Path) -> None:
    said = checked(tmp_path, WRONG)
    assert 'Argument "stack" to "Client" has incompatible type "int"' in said, said
    assert 'Argument 1 to "submit" of "Client" has incompatible type "str"' in said, said
    assert '"Client" has no attribute "submit_later"' in said, said
    assert '"Job[Params]" has no attribute "writes"' in said, said
    assert '"Params" has no attribute "most"' in said, said


def test_the_site_is_built_without_a_warning() -> None:
    subprocess.run(["/usr/bin/make", "docs"], cwd=ROOT, check=True)
