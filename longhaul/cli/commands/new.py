"""`longhaul new`: writes a working job and its test, to be changed."""

import json
import keyword
import re
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Final

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.project import NO_PROJECT, chosen

if TYPE_CHECKING:
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

_PARTS_JOB: Final = Template('''\
"""Rows of a CSV (input `rows`), counted by one of its columns, in parts by another.

A part is stored when `job.write` returns. When the attempt is cut off, the next one passes over the
parts that are stored, and goes on with the others.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from longhaul.job import Job, PermanentJobError
from longhaul.job import Params as BaseParams


class Params(BaseParams):
    """The `params` of a message. Another field dead-letters it, with the field's name."""

    column: str
    part: str


def run(spark: SparkSession, job: Job[Params]) -> None:
    rows = spark.read.csv(job.input("rows"), header=True)
    for name, column in (("column", job.params.column), ("part", job.params.part)):
        if column not in rows.columns:
            raise PermanentJobError(f"params.{name}: the input has no column {column!r}")
    job.progress("counting")
    # Computed once for all attempts: what takes long, and each part needs.
    counts = job.checkpoint("counts", counted(rows, job.params.column, job.params.part))
    for part in names_of_parts(counts):
        job.progress(f"part {part}")
        job.write(rows_of(counts, part), part=part)


def counted(rows: DataFrame, column: str, part: str) -> DataFrame:
    """One row for each value of the column in each part, with its count."""
    return (
        rows.groupBy(
            # A part is named by what is in the data, never by a number of Spark's partitions.
            F.coalesce(F.col(part), F.lit("none")).alias("part"),
            F.col(column).alias("value"),
        )
        .agg(F.count(F.lit(1)).alias("rows"))
        .select("part", "value", "rows")
    )


def names_of_parts(counts: DataFrame) -> list[str]:
    """The names, in the same order in each attempt."""
    return sorted(row["part"] for row in counts.select("part").distinct().collect())


def rows_of(counts: DataFrame, part: str) -> DataFrame:
    """The rows of a part, the most frequent value first."""
    return counts.where(F.col("part") == part).orderBy(F.desc("rows"), "value")
''')

_PLAIN_JOB: Final = Template('''\
"""Rows of a CSV (input `rows`), counted by one of its columns: plain Python, without a JVM.

pandas, polars or DuckDB do as well, from the project's requirements.txt.
"""

from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from longhaul.job import Job, PermanentJobError
from longhaul.job import Params as BaseParams


class Params(BaseParams):
    """The `params` of a message. Another field dead-letters it, with the field's name."""

    column: str


def run(job: Job[Params]) -> None:
    files = sorted(Path(job.input("rows")).iterdir())
    tables = []
    for n, file in enumerate(files):
        job.progress("reading", done=n, total=len(files))
        tables.append(csv.read_csv(file))
    rows = pa.concat_tables(tables)
    if job.params.column not in rows.column_names:
        raise PermanentJobError(f"params.column: the input has no column {job.params.column!r}")
    job.write(counted(rows, job.params.column))


def counted(rows: pa.Table, column: str) -> pa.Table:
    """One row for each value of the column and its count, the most frequent first."""
    counts = rows.group_by(column).aggregate([([], "count_all")])
    counts = counts.select([column, "count_all"]).rename_columns(["value", "rows"])
    return counts.sort_by([("rows", "descending"), ("value", "ascending")])
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

_PLAIN_TEST: Final = Template("""\
from pathlib import Path
from typing import Any

import pytest

import $name
from longhaul.job import PermanentJobError


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.csv"
    file.write_text("city,km\\nOslo,3\\nRome,5\\nOslo,4\\n")
    return file


def test_rows_are_counted_by_the_column(make_job: Any, written: Any, rows: Path) -> None:
    job = make_job({"rows": rows}, $name.Params(column="city"), plain=True)

    $name.run(job)

    assert written(job) == [{"value": "Oslo", "rows": 2}, {"value": "Rome", "rows": 1}]


def test_a_missing_column_is_permanent(make_job: Any, rows: Path) -> None:
    job = make_job({"rows": rows}, $name.Params(column="country"), plain=True)

    with pytest.raises(PermanentJobError, match="the input has no column 'country'"):
        $name.run(job)
""")

_PARTS_TEST: Final = Template("""\
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import $name
from longhaul.job import PermanentJobError

PARAMS = $name.Params(column="city", part="month")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.csv"
    file.write_text("month,city\\n01,Oslo\\n01,Oslo\\n02,Rome\\n,Oslo\\n")
    return file


def test_each_part_has_its_counts(
    spark: SparkSession, make_job: Any, written: Any, rows: Path
) -> None:
    job = make_job({"rows": rows}, PARAMS)

    $name.run(spark, job)

    assert written(job) == [
        {"part": "01", "value": "Oslo", "rows": 2},
        {"part": "02", "value": "Rome", "rows": 1},
        {"part": "none", "value": "Oslo", "rows": 1},
    ]


def test_the_second_attempt_goes_on_after_the_last_part(
    spark: SparkSession,
    make_job: Any,
    written: Any,
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = make_job({"rows": rows}, PARAMS)
    write = first.write

    def write_one_and_die(df: DataFrame, part: str) -> None:
        write(df, part=part)
        raise KeyboardInterrupt

    monkeypatch.setattr(first, "write", write_one_and_die)
    with pytest.raises(KeyboardInterrupt):
        $name.run(spark, first)

    second = make_job({"rows": rows}, PARAMS, after=first)
    $name.run(spark, second)

    assert second.taken_over == "1 checkpoint, 1 part"
    assert [row["part"] for row in written(second)] == ["01", "02", "none"]


def test_a_missing_column_is_permanent(spark: SparkSession, make_job: Any, rows: Path) -> None:
    job = make_job({"rows": rows}, $name.Params(column="country", part="month"))

    with pytest.raises(PermanentJobError, match="the input has no column 'country'"):
        $name.run(spark, job)
""")

_PARAMS: Final = {"column": "city"}

_PARTS_PARAMS: Final = {"column": "city", "part": "month"}

USUAL: Final = (_JOB, _TEST)

IN_PARTS: Final = (_PARTS_JOB, _PARTS_TEST)
"""A job that stores its output in parts; its test plays a second attempt."""

PLAIN: Final = (_PLAIN_JOB, _PLAIN_TEST)
"""A job without Spark."""


def new(
    name: Annotated[str, typer.Argument(help="The job's name in messages.", metavar="NAME")],
    *,
    parts: Annotated[
        bool,
        typer.Option(
            "--parts",
            help="One that writes in parts, and goes on where it was cut off"
            " (docs/checkpoints.md).",
        ),
    ] = False,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="One in plain Python, for which no Spark is started (docs/jobs.md#without-spark).",
        ),
    ] = False,
) -> None:
    """Write a new job into the project, with a test that passes, and print a message for it.

    It overwrites nothing.

    Example: longhaul new busy_days

    Example: longhaul new sessions --parts
    """
    from rich.console import Console

    project = chosen()
    if project is None:
        raise CommandError(NO_PROJECT, ExitStatus.USAGE)
    if parts and plain:
        raise CommandError("--parts and --plain: there is no job of both kinds", ExitStatus.USAGE)
    top = project.folder
    job, test = write_job(name, project, IN_PARTS if parts else PLAIN if plain else USUAL)
    example = {
        "job": name,
        "inputs": {"rows": "data:raw/rows.csv"},
        "output": f"data:{name}/",
        "params": _PARTS_PARAMS if parts else _PARAMS,
    }
    say = Console(stderr=True, soft_wrap=True, highlight=False).print
    say(f"written: {job.relative_to(top)}")
    say(f"         {test.relative_to(top)}", markup=False)
    say(f"test it: longhaul test {test.relative_to(top)}", markup=False)
    say("a message for it, for a `longhaul up` that runs, or once the stack is deployed:")
    typer.echo(json.dumps(example))


def texts(name: str, of: tuple[Template, Template] = USUAL) -> tuple[str, str]:
    """A job of that name, and its test."""
    job, test = of
    return job.substitute(), test.substitute(name=name)


def write_job(
    name: str, project: "Project", of: tuple[Template, Template] = USUAL
) -> tuple[Path, Path]:
    """Write the job and its test, and return both files. Nothing is overwritten.

    Raises:
        CommandError: the name is invalid, or taken.
    """
    from longhaul.config.job_files import taken

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
    for file, text in zip((job, test), texts(name, of), strict=True):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return job, test
