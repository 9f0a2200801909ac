"""What jobs store that read tables, or write them: with Spark, on moto."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType
from pyspark.sql import DataFrame, SparkSession

from longhaul.core.places import TablePath
from longhaul.core.verdict import ExitCode
from longhaul.job import Job
from longhaul.outputs.iceberg.catalog import Tables
from tests.builders import BUCKET
from tests.runner.conftest import Cloud
from tests.runner.job_attempts import Attempts, DiesError, computed, loaded, times

PATH = TablePath("lake", "events")


def test_parts_of_a_table_are_one_output(
    cloud: Cloud, attempts: Attempts, tables: Tables, tmp_path: Path
) -> None:
    cloud.claim(inputs={}, output=str(PATH), mode="append")
    counter = tmp_path / "counter"

    def run(spark: SparkSession, job: Job[Any]) -> None:
        for n, month in enumerate(("2013-01", "2013-02", "2013-03"), 1):
            frame = computed(spark, month, n, counter)
            assert job.write(frame, part=month, partition_by=["month"]) == n
            if job.attempt == n < 3:
                raise DiesError

    assert attempts.ends(run, 3) == [ExitCode.FAILED, ExitCode.FAILED, ExitCode.OK]
    assert [times(counter, month) for month in ("2013-01", "2013-02", "2013-03")] == [1, 2, 3]
    table = loaded(tables, PATH)
    rows = table.scan().to_arrow().to_pylist()
    assert sorted((row["month"], row["n"]) for row in rows) == [
        *[("2013-01", 0)],
        *[("2013-02", n) for n in range(2)],
        *[("2013-03", n) for n in range(3)],
    ]
    assert len(table.snapshots()) == 1


def append(tables: Tables, *numbers: int) -> None:
    """Another writer's rows, in a snapshot of their own."""
    rows = pa.table({"n": pa.array(numbers, pa.int64())})
    table = tables.load(PATH)
    if table is None:
        table = tables.catalog.create_table(
            f"{PATH.database}.{PATH.name}", rows.schema, location=PATH.location(BUCKET)
        )
    table.append(rows)


@pytest.mark.parametrize("code", ["1", "2"], ids=["same code", "other code"])
def test_a_table_is_read_as_it_was_when_something_was_stored(
    cloud: Cloud, attempts: Attempts, tables: Tables, code: str
) -> None:
    append(tables, 1, 2)
    cloud.claim(inputs={"events": str(PATH)})
    seen = []

    def run(spark: SparkSession, job: Job[Any]) -> None:
        frame = job.read("events", spark.read.format("parquet"))
        seen.append(sorted(row["n"] for row in frame.collect()))
        job.write(frame, part="all")
        if job.attempt == 1:
            append(tables, 3)
            raise DiesError

    assert attempts.run(run) is ExitCode.FAILED
    assert attempts.run(run, code=code) is ExitCode.OK
    # Other code takes nothing over, so it reads the table as it is.
    assert seen == [[1, 2], [1, 2] if code == "1" else [1, 2, 3]]
    assert cloud.manifest().rows == {".": len(seen[1])}


def test_a_table_is_read_with_the_columns_that_it_had(
    cloud: Cloud, attempts: Attempts, tables: Tables, tmp_path: Path
) -> None:
    append(tables, 1, 2)
    append(tables, 100, 200)
    # The filter leaves out a file, as long as the columns are those that the table has.
    cloud.claim(inputs={"events": f"{PATH}?n > 50"})
    seen, counter = [], tmp_path / "counter"

    def run(spark: SparkSession, job: Job[Any]) -> None:
        frame = job.read("events", spark.read.format("parquet"))
        seen.append((frame.columns, sorted(row["n"] for row in frame.collect())))
        job.checkpoint("c", computed(spark, "c", 1, counter))
        job.write(frame, part="all")
        if job.attempt == 1:
            table = loaded(tables, PATH)
            with table.update_schema() as change:
                change.add_column("more", LongType())
            raise DiesError

    assert attempts.ends(run) == [ExitCode.FAILED, ExitCode.OK]
    assert seen == [(["n"], [100, 200])] * 2
    assert times(counter, "c") == 1


def test_parts_of_a_table_that_is_split_in_another_way_by_now_are_computed_again(
    cloud: Cloud, attempts: Attempts, tables: Tables
) -> None:
    cloud.claim(inputs={}, output=str(PATH), mode="append")

    def run(spark: SparkSession, job: Job[Any]) -> None:
        def frame(*months: str) -> DataFrame:
            return spark.createDataFrame([*enumerate(months)], "n long, month string").coalesce(1)

        job.write(frame("a", "b"), part="1")
        if job.attempt == 1:
            columns = pa.schema([pa.field("n", pa.int64()), pa.field("month", pa.string())])
            location = PATH.location(BUCKET)
            table = tables.catalog.create_table("lake.events", columns, location=location)
            with table.update_spec() as update:
                update.add_identity("month")
            raise DiesError
        job.write(frame("c"), part="2")

    assert attempts.ends(run) == [ExitCode.FAILED, ExitCode.OK]
    assert "taken_over" not in cloud.lease().attempt.progress
