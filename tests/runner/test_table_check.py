"""`longhaul table check`: bounds that hide rows of a table are found and mended."""

import json
import struct
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata
from pyiceberg.types import DoubleType, LongType
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from longhaul.adapters.clock import SystemClock
from longhaul.adapters.iceberg.catalog import Tables
from longhaul.adapters.iceberg.commits import commit_once
from longhaul.cli.cli import app
from longhaul.cli.tables.bounds import BoundsChange, BoundsCheck
from longhaul.domain.tables import TablePath
from longhaul.testing import MakeJob
from tests.builders import BUCKET
from tests.contract.lake import Glue
from tests.runner.row_deletes import delete_rows
from tests.runner.spark_lake import SparkLake, served_lake

PATH = TablePath("longhaul", "t")
GROUPS = "parquet.block.row.count.limit"
F = "case when id % 200 >= 100 then id % 6 when id % 200 = 50 then double('NaN') else id % 200 end"
HIDDEN = [*range(11, 50), *range(51, 100)]  # f is above 10

Write = Callable[..., None]
Run = Callable[..., Result]


@pytest.fixture
def lake(tmp_path: Path, make_job: MakeJob) -> Iterator[SparkLake]:
    with served_lake(tmp_path, make_job) as served:
        yield served


@pytest.fixture
def write(lake: SparkLake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Rows `begin` to `begin + 199` as an earlier version wrote them.

    Half of them has a NaN, and f up to 99. In the row groups after it f is 5 at most.
    """

    def write_(begin: int = 0, **given: Any) -> None:
        df = spark.range(begin, begin + 200, numPartitions=1)
        rows = df.selectExpr("id n", f"double({F}) f", "id % 2 p")
        spark.conf.set(GROUPS, "50")
        with monkeypatch.context() as patch:
            # They took pyiceberg's word for the bounds.
            patch.setattr(
                "longhaul.runner.io.table_files.statistics_of",
                data_file_statistics_from_parquet_metadata,
            )
            lake.write("t", rows, **given)
        spark.conf.unset(GROUPS)

    return write_


@pytest.fixture
def run(lake: SparkLake, monkeypatch: pytest.MonkeyPatch) -> Run:
    def run_(*arguments: str) -> Result:
        monkeypatch.setattr("longhaul.cli.target.connect", lambda *_, **__: lake.target)
        done = CliRunner().invoke(app, ["table", "check", *arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        return done

    return run_


def found(lake: SparkLake, where: str = "f > 10") -> dict[str, list[int]]:
    # DuckDB says that a NaN is above all numbers, as Spark does.
    return {
        "job": lake.ours("t", where),
        "pyiceberg": lake.by_pyiceberg("t", where),
        "duckdb": lake.by_duckdb("t", f"({where}) AND NOT isnan(f)"),
    }


def test_rows_that_wrong_bounds_hide_are_found_by_every_reader_after_a_check(
    lake: SparkLake, write: Write, run: Run
) -> None:
    write()
    assert found(lake) == {"job": [], "pyiceberg": [], "duckdb": []}
    files = lake.files("t")

    done = run("t")

    assert (done.exit_code, done.stdout) == (0, f"{files[0]}\tf\n")
    assert "longhaul.t: 1 of 1 files with wrong bounds, mended now" in done.stderr
    assert found(lake) == {"job": HIDDEN, "pyiceberg": HIDDEN, "duckdb": HIDDEN}
    assert lake.files("t") == files
    assert lake.ours("t", "n >= 150") == [*range(150, 200)]
    again = run("t")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "longhaul.t: 0 of 1 files with wrong bounds\n" in again.stderr


def test_a_dry_run_says_what_is_wrong_and_changes_nothing(
    lake: SparkLake, write: Write, run: Run
) -> None:
    write()
    before = lake.table("t").metadata_location

    done = run("longhaul.t", "--dry-run", "--json")

    assert done.exit_code == 1
    assert json.loads(done.stdout) == {
        "file": lake.files("t")[0],
        "columns": ["f"],
        "mended": False,
    }
    assert lake.table("t").metadata_location == before
    assert lake.ours("t", "f > 10") == []


def test_partitions_older_columns_and_deleted_rows_are_as_before(
    lake: SparkLake, write: Write, run: Run
) -> None:
    write(partition_by=["p"])
    table = lake.table("t")
    first = next(iter(table.scan().plan_files())).file
    delete_rows(table, {first.file_path: [10, 11]}, first.partition)
    with table.refresh().update_spec() as spec:
        spec.remove_field("p")
    with table.refresh().update_schema() as schema:
        schema.rename_column("f", "h")
    write(200)
    with table.refresh().update_schema() as schema:
        schema.delete_column("p")
    deleted = set(range(200)) - set(lake.ours("t"))
    assert len(deleted) == 2
    totals = table.refresh().current_snapshot().summary.additional_properties

    done = run("t")

    assert sorted(line.split("\t")[1] for line in done.stdout.splitlines()) == ["f", "h"]
    # DuckDB reads no table that lacks a column by which it was partitioned.
    expected = [n for n in HIDDEN if n not in deleted]
    assert lake.ours("t", "h > 10") == lake.by_pyiceberg("t", "h > 10") == expected
    snapshot = table.refresh().current_snapshot()
    assert snapshot.summary.operation.value == "replace"
    assert snapshot.summary["total-records"] == totals["total-records"]


def test_rows_that_others_add_or_replace_meanwhile_are_kept(
    lake: SparkLake, spark: SparkSession, write: Write
) -> None:
    write()
    # What a job writes whose upload ends before the check, and whose commit comes after it.
    seven = spark.range(7, 8).selectExpr("id n", "double(id) f", "id p")
    replacing = lake.upload("t", seven, mode="overwrite")
    racing = Glue(lake.glue, 1, "ConcurrentModificationException", before=lambda: write(200))
    check = BoundsCheck(Tables(lambda: racing, lake.s3, BUCKET), lake.s3, PATH)

    mended = check.mend(SystemClock())

    assert len(mended.wrong) == 2
    assert check.look().wrong == []
    assert found(lake)["pyiceberg"] == HIDDEN + [n + 200 for n in HIDDEN]
    lake.publish(replacing)
    assert lake.ours("t") == [7, *range(200, 400)]


def test_a_file_that_cannot_be_checked_is_named_and_the_others_are_mended(
    lake: SparkLake, write: Write, run: Run
) -> None:
    write()
    write(200)
    gone, other = lake.files("t")
    lake.s3.delete_object(Bucket=BUCKET, Key=gone.removeprefix(f"s3://{BUCKET}/"))

    done = run("t")

    assert (done.exit_code, done.stdout) == (1, f"{other}\tf\n")
    assert f"not checked: {gone}: NoSuchKey\n" in done.stderr


def test_bounds_that_icebergs_own_library_took_from_the_values_stay(
    lake: SparkLake, write: Write, run: Run
) -> None:
    write()
    (uri,) = lake.files("t")
    key = uri.removeprefix(f"s3://{BUCKET}/")
    body = lake.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    rows = pq.read_table(BytesIO(body))
    written = BytesIO()
    pq.write_table(rows.replace_schema_metadata({"iceberg.schema": "{}"}), written)
    lake.s3.put_object(Bucket=BUCKET, Key=key, Body=written.getvalue())

    assert "0 of 1 files" in run("t").stderr


def test_right_bounds_of_every_type_stay_and_narrow_ones_are_mended(
    lake: SparkLake, spark: SparkSession, run: Run
) -> None:
    columns = (
        "id n", "int(id) i", "float(id) f", "string(id) || repeat('x', 30) s", "id % 2 = 0 b",
        "cast(id as decimal(9, 2)) d", "date_add(date'2026-01-01', int(id)) day",
        "timestamp'2026-01-01' + make_dt_interval(int(id)) at", "cast(null as int) empty",
        "named_struct('x', id) deep", "array(id) many", "map('k', id) m",
        "encode('a', 'utf-8') raw",
    )  # fmt: skip
    lake.write("t", spark.range(20).selectExpr(*columns))
    with lake.table("t").update_schema() as schema:
        schema.update_column("i", LongType())
        schema.update_column("f", DoubleType())
        schema.delete_column("d")
    assert "0 of 2 files" in run("t").stderr

    # Others may have written any.
    nan, pack = float("nan"), struct.pack
    narrow: dict[str, tuple[bytes | None, bytes | None]] = {
        "i": (pack("<q", 3), pack("<q", 100)),
        "f": (None, pack("<d", nan)),
        "s": (b"", b"4"),
        "day": (pack("<i", 20454), pack("<i", 20460)),
    }
    table = lake.table("t")
    ids = {table.schema().find_field(name).field_id: each for name, each in narrow.items()}
    transaction = table.transaction()
    BoundsChange(transaction, table.io, dict.fromkeys(lake.files("t"), ids)).commit()
    commit_once(lake.tables, table, transaction)
    hidden = {"i >= 0": 20, "f > 1": 18, "s > '4'": 6, "day >= '2026-01-01'": 20}
    assert any(len(lake.by_pyiceberg("t", where)) < n for where, n in hidden.items())

    done = run("t")

    assert done.stdout.splitlines()[0].endswith("\ti, f, s, day")
    assert {where: len(lake.by_pyiceberg("t", where)) for where in hidden} == hidden
    assert "0 of 2 files" in run("t").stderr
