"""`longhaul new-job`: writes a working job and its test, to be changed."""

import json
import keyword
import re
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer
from rich.console import Console

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.project import NO_PROJECT, chosen
from longhaul.config.job_files import taken
from longhaul.config.project import Project

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")

_JOB: Final = Template('''\
"""Rows of a CSV (input `rows`), counted by one of its columns."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from longhaul.job import Job, PermanentJobError
from longhaul.job import Params as BaseParams


class Params(BaseParams):
    """The `params` of a message. Another field dead-letters it, with the field's name."""

    column: str


def run(spark: SparkSession, job: Job[Params]) -> None:
    rows = spark.read.csv(job.input("rows"), header=True)
    if job.params.column not in rows.columns:
        raise PermanentJobError(f"params.column: the input has no column {job.params.column!r}")
    job.progress("counting")
    job.write(counted(rows, job.params.column))


def counted(rows: DataFrame, column: str) -> DataFrame:
    """One row for each value of the column and its count, the most frequent first."""
    return (
        rows.groupBy(F.col(column).alias("value"))
        .agg(F.count(F.lit(1)).alias("rows"))
        .select("value", "rows")
        .orderBy(F.desc("rows"), "value")
    )
''')

_TEST: Final = Template("""\
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import $name
from longhaul.job import PermanentJobError


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.csv"
    file.write_text("city,km\\nOslo,3\\nRome,5\\nOslo,4\\n")
    return file


def test_rows_are_counted_by_the_column(
    spark: SparkSession, make_job: Any, written: Any, rows: Path
) -> None:
    job = make_job({"rows": rows}, $name.Params(column="city"))

    $name.run(spark, job)

    assert written(job) == [{"value": "Oslo", "rows": 2}, {"value": "Rome", "rows": 1}]


def test_a_missing_column_is_permanent(spark: SparkSession, make_job: Any, rows: Path) -> None:
    job = make_job({"rows": rows}, $name.Params(column="country"))

    with pytest.raises(PermanentJobError, match="the input has no column 'country'"):
        $name.run(spark, job)
""")


def job_text() -> str:
    return _JOB.substitute()


def test_text(name: str) -> str:
    return _TEST.substitute(name=name)


def write_job(name: str, project: Project) -> tuple[Path, Path]:
    """Write the job and its test, and return both files. Nothing is overwritten.

    Raises:
        CommandError: the name is invalid, or taken.
    """
    if keyword.iskeyword(name):
        raise CommandError(
            f"{name!r} is no name for a job: it is a word of Python's own, which no module has",
            ExitStatus.USAGE,
        )
    if not _NAME.fullmatch(name):
        raise CommandError(
            f"{name!r} is no name for a job: it becomes a module, so a-z, 0-9 and _, "
            "beginning with a letter",
            ExitStatus.USAGE,
        )
    job, test = project.jobs / f"{name}.py", project.tests / f"test_{name}.py"
    for file in (job, test):
        if file.exists():
            place = file.relative_to(project.folder)
            raise CommandError(f"{place} exists already: choose another name, or delete it")
    if why := taken(job):
        raise CommandError(why, ExitStatus.USAGE)
    for file, text in ((job, job_text()), (test, test_text(name))):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return job, test


def new_job(
    name: Annotated[str, typer.Argument(help="The job's name in messages.", metavar="NAME")],
) -> None:
    """Write a new job into the project, with a test that passes.

    Example: longhaul new-job count_rows
    """
    project = chosen()
    if project is None:
        raise CommandError(NO_PROJECT, ExitStatus.USAGE)
    top = project.folder
    job, test = write_job(name, project)
    example = {
        "job": name,
        "inputs": {"rows": "s3://BUCKET/raw/rows.csv"},
        "output": f"s3://BUCKET/{name}/",
        "params": {"column": "city"},
    }
    say = Console(stderr=True, soft_wrap=True, highlight=False).print
    say(f"written: {job.relative_to(top)}")
    say(f"         {test.relative_to(top)}", markup=False)
    say(f"test it: longhaul test {test.relative_to(top)}", markup=False)
    say("a message for it, once `longhaul up` is restarted or the stack deployed:")
    typer.echo(json.dumps(example))
