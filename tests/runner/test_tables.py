"""An attempt that reads or writes a table: what Spark wrote is what readers of Iceberg get."""

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as PySpark's texts call it

from longhaul.core.errors import PermanentJobError
from longhaul.core.places import TablePath
from longhaul.core.settings import RequestLimits
from longhaul.core.verdict import ExitCode
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.iceberg.columns import evolve
from longhaul.outputs.partitions import PartitionBy
from longhaul.runner.io.table_files import columns_of, describe
from longhaul.runner.running_job import RunningJob
from longhaul.runner.spark.frames import split
from tests.builders import BUCKET, settings, stage
from tests.runner.conftest import Cloud, MakeAttempt
from tests.runner.job_attempts import loaded

PATH = TablePath("lake", "events")
LONG = "x" * 300
ROWS = (
    "select id n, cast(id as int) i, cast(id as decimal(9, 2)) d, id / 2 half,"
    " date_add(date'2026-01-30', cast(id as int)) day,"
    " timestamp'2026-01-01 00:00:00.123456' + make_dt_interval(cast(id as int)) at,"
    " case id when 0 then null when 1 then '' when 2 then repeat('x', 300) else 'a/b=c' end kind,"
    " named_struct('x', id, 'tags', array('t', null)) deep, map('k', id) m"
    " from range(6)"
)

Write = Callable[[SparkSession, RunningJob[Any]], None]


@pytest.fixture
def run(cloud: Cloud, tables: Tables, make_attempt: MakeAttempt) -> Callable[..., ExitCode]:
    del tables  # they are there

    def run_(write: Write, **request: Any) -> ExitCode:
        cloud.claim(**{"inputs": {}, "output": str(PATH), "mode": "append", **request})
        return make_attempt(write).run()

    return run_


def writing(partition_by: Sequence[str] = (), query: str = ROWS) -> Write:
    def write(spark: SparkSession, job: RunningJob[Any]) -> None:
        job.write(spark.sql(query), format="json", partition_by=partition_by)

    return write


def create(tables: Tables, **types: str) -> Table:
    schema = columns_of({"fields": [{"name": name, "type": types[name]} for name in types]})
    return tables.catalog.create_table(("lake", "events"), schema, PATH.location(BUCKET))


def read(tables: Tables, path: TablePath = PATH) -> list[dict[str, Any]]:
    table = loaded(tables, path)
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: int(row["n"]))


@pytest.mark.parametrize(
    ("partition_by", "count"),
    [((), None), (("kind",), 4), (("month(day)", "d"), 6), (("day(at)",), 6), (("year(day)",), 1)],
)
def test_rows_of_all_types_are_read_as_they_were_written(
    run: Callable[..., ExitCode],
    cloud: Cloud,
    tables: Tables,
    partition_by: Sequence[str],
    count: int | None,
) -> None:
    assert run(writing(partition_by)) is ExitCode.OK

    rows = read(tables)
    assert [row["n"] for row in rows] == list(range(6))
    assert rows[2] == {
        "n": 2,
        "i": 2,
        "d": Decimal("2.00"),
        "half": Decimal("1.0") if isinstance(rows[2]["half"], Decimal) else 1.0,
        "day": dt.date(2026, 2, 1),
        "at": dt.datetime(2026, 1, 3, 0, 0, 0, 123456, tzinfo=dt.UTC),
        "kind": LONG,
        "deep": {"x": 2, "tags": ["t", None]},
        "m": [("k", 2)],
    }
    assert [row["kind"] for row in rows] == [None, "", LONG, *["a/b=c"] * 3]
    table = loaded(tables, PATH)
    if count is not None:
        partitions = {str(task.file.partition) for task in table.scan().plan_files()}
        assert len(partitions) == count
    assert cloud.output().prefix == str(PATH)
    assert cloud.lease().attempt.published_at is not None
    assert cloud.pending_uploads() == []


def test_mode_error_refuses_before_any_work(
    run: Callable[..., ExitCode], cloud: Cloud, tables: Tables
) -> None:
    table = create(tables, n="long")
    with table.transaction() as transaction, transaction.update_snapshot().fast_append():
        pass

    def never(*_: Any) -> None:
        raise AssertionError("the job ran")

    assert run(never, mode="error") is ExitCode.PERMANENT
    assert "mode is error, and table://lake/events holds an output" in cloud.result().error


@pytest.mark.parametrize(
    ("query", "partition_by", "problem"),
    [
        ("select 1 a, 2 A", (), "columns a and A differ in case alone"),
        ("select interval 1 day a", (), "a table has no type for Spark's interval day"),
        ("select 1 `a.b`", (), "has a dot in its name"),
        ("select 1D a", ("a",), "partition_by a: a double cannot be used like this"),
        ("select 1 a", ("day(a)",), "partition_by day(a): a int cannot be used like this"),
        ("select 1 a", ("a", "a"), "partition_by a: it is named twice"),
        ("select 1 a", ("a", "A"), "partition_by A: the job writes no such column"),
        ("select 1 a", ("b",), "partition_by b: the job writes no such column"),
    ],
)
def test_what_a_table_cannot_hold_is_permanent_and_named(
    run: Callable[..., ExitCode],
    cloud: Cloud,
    query: str,
    partition_by: Sequence[str],
    problem: str,
) -> None:
    assert run(writing(partition_by, query)) is ExitCode.PERMANENT

    assert problem in cloud.result().error


@pytest.mark.usefixtures("tables")
def test_a_named_dataset_goes_to_no_table_outside_the_limits_of_its_stage(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    limits = RequestLimits(output_prefixes=(f"{PATH.location(BUCKET)}/",))

    def two(spark: SparkSession, job: RunningJob[Any]) -> None:
        job.write(spark.sql("select 1 n"))
        job.write(spark.sql("select 1 n"), "late")

    cloud.claim(inputs={}, output=str(PATH))
    limited = settings(stages=(stage(limits=limits),))
    assert make_attempt(two, settings=limited).run() is ExitCode.PERMANENT

    assert "output: table://lake/events__late: stage main writes only below" in cloud.result().error


def test_a_job_that_overwrites_the_table_it_reads_keeps_what_came_since(
    run: Callable[..., ExitCode], tables: Tables
) -> None:
    table = with_rows(tables, 1, 2)

    def double(spark: SparkSession, job: RunningJob[Any]) -> None:
        read_ = spark.read.parquet(job.input("events"))
        table.append(pa.table({"n": [7]}))
        job.write(read_.select((F.col("n") * 10).alias("n")))

    assert run(double, inputs={"events": str(PATH)}, mode="overwrite") is ExitCode.OK

    assert [row["n"] for row in read(tables)] == [7, 10, 20]


def test_a_job_does_not_overwrite_the_rows_that_its_filter_left_out(
    run: Callable[..., ExitCode], cloud: Cloud, tables: Tables
) -> None:
    with_rows(tables, 1, 2)

    def copy(spark: SparkSession, job: RunningJob[Any]) -> None:
        job.write(spark.read.parquet(job.input("events")))

    filtered = {"events": f"{PATH}?n = 1"}
    assert run(copy, inputs=filtered, mode="overwrite") is ExitCode.PERMANENT

    assert "also those that the filter of the job's input leaves out" in cloud.result().error
    assert [row["n"] for row in read(tables)] == [1, 2]


def with_rows(tables: Tables, *numbers: int) -> Table:
    table = create(tables, n="long")
    table.append(pa.table({"n": list(numbers)}))
    return table


def test_files_of_the_jobs_own_are_refused(run: Callable[..., ExitCode], cloud: Cloud) -> None:
    assert run(lambda _, job: job.files()) is ExitCode.PERMANENT

    assert "which a table cannot hold" in cloud.result().error


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize(
    ("by", "count"), [("at", 7), ("hour(at)", 7), ("day(at)", 4), ("month(at)", 3)]
)
def test_days_and_hours_are_those_of_utc_in_a_session_of_any_time_zone(
    spark: SparkSession, tmp_path: Path, kind: str, by: str, count: int
) -> None:
    # In Berlin: other days and months, an hour that is skipped, and one that comes twice.
    times = (
        "03-30 23:30",
        "03-31 02:30",
        "03-31 03:30",
        "03-31 23:30",
        "04-01 00:30",
        "10-27 00:30",
        "10-27 01:30",
    )
    zone = "Z" if kind == "timestamp" else ""
    values = ", ".join(f"{kind}'2024-{time}:00{zone}'" for time in times)
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        df = spark.sql(f"select explode(array({values})) at").coalesce(1)
        split(df, [PartitionBy.parse(by)]).save((tmp_path / "at").as_uri())
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    files = (tmp_path / "at").rglob("*.parquet")
    schema = columns_of(df.schema.jsonValue())
    described = describe(files, schema, (PartitionBy.parse(by),), "data/")

    assert len(described) == len({entry.partition for _, entry in described}) == count


def test_a_file_whose_rows_are_of_two_partitions_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = spark.range(2).withColumn("p", F.col("id").cast("string")).coalesce(1)
    df.write.parquet((tmp_path / "two").as_uri())

    with pytest.raises(PermanentJobError, match="a file has several of its values"):
        describe(
            (tmp_path / "two").glob("*.parquet"),
            columns_of(df.schema.jsonValue()),
            (PartitionBy(column="p"),),
            "data/",
        )


@pytest.mark.parametrize("how", ["spark.legacyDateTime", "int96"])
def test_times_that_readers_of_tables_would_take_for_others_are_refused(
    tmp_path: Path, how: str
) -> None:
    schema = columns_of({"fields": [{"name": "at", "type": "timestamp_ntz"}]})
    rows = pa.table({"at": pa.array([0], pa.timestamp("us"))})
    marked = rows.replace_schema_metadata({f"org.apache.{how}": ""})
    file = tmp_path / "part.parquet"
    pq.write_table(marked, file, use_deprecated_int96_timestamps=how == "int96")

    with pytest.raises(PermanentJobError, match="no times of the LEGACY calendar, and none as"):
        describe([file], schema, (), "data/")


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_a_column_beyond_the_years_of_python_has_no_bounds(tmp_path: Path, kind: str) -> None:
    schema = columns_of({"fields": [{"name": "n", "type": "long"}, {"name": "at", "type": kind}]})
    far = pa.array([0, None, 4_000_000 if kind == "date" else 2**60])
    type_ = schema.as_arrow().field("at").type
    at = far.cast(pa.int32() if kind == "date" else pa.int64()).cast(type_)
    pq.write_table(pa.table({"n": [1, 2, 3], "at": at}), tmp_path / "part.parquet")

    ((_, entry),) = describe([tmp_path / "part.parquet"], schema, (), "data/")

    n, at_ = entry.columns[1], entry.columns[2]
    assert n.lower is not None
    assert (at_.lower, at_.upper, at_.values, at_.nulls) == (None, None, 3, 1)
    with pytest.raises(PermanentJobError, match="column at cannot part the rows"):
        describe([tmp_path / "part.parquet"], schema, (PartitionBy(column="at"),), "data/")


@pytest.mark.parametrize("nan_in", [0, 1, 2])
def test_a_column_with_a_nan_in_any_row_group_has_no_bounds(
    spark: SparkSession, tmp_path: Path, nan_in: int
) -> None:
    small = {"parquet.block.row.count.limit": "100"}
    f = f"case when id = {nan_in * 100 + 7} then double('NaN') else (id div 100) * 10 + id % 5 end"
    df = spark.range(300, numPartitions=1).selectExpr("id as n", f"cast({f} as double) as f")
    df.write.options(**small).parquet((tmp_path / "rows").as_uri())
    (file,) = (tmp_path / "rows").glob("*.parquet")
    assert pq.read_metadata(file).num_row_groups == 3

    ((_, entry),) = describe([file], columns_of(df.schema.jsonValue()), (), "data/")

    n, f_ = entry.columns[1], entry.columns[2]
    assert (n.lower, n.upper) != (None, None)
    assert (f_.lower, f_.upper, f_.values, f_.nulls) == (None, None, 300, 0)


def test_a_column_has_no_bounds_where_a_row_group_with_values_has_none(tmp_path: Path) -> None:
    schema = columns_of({"fields": [{"name": "a", "type": "double"}]})
    path = tmp_path / "part.parquet"
    # pyarrow leaves NaN out of a row group's bounds, and has none for a group of NaN alone.
    groups = ([1.0, 2.0], [float("nan")], [None])
    for without, expected in ((1, True), (2, False)):
        with pq.ParquetWriter(path, schema.as_arrow()) as writer:
            for n, values in enumerate(groups):
                if n != without:
                    column = pa.array(values, pa.float64())
                    writer.write_table(pa.table([column], schema=schema.as_arrow()))
        ((_, entry),) = describe([path], schema, (), "data/")
        assert (entry.columns[1].upper is not None) is expected


def test_a_column_may_have_any_name(run: Callable[..., ExitCode], tables: Tables) -> None:
    query = "select 1 n, 'a' LONGHAUL_BY_0, 'b' longhaul_by__0, 'c' `p``q`"

    assert run(writing(["p`q"], query)) is ExitCode.OK

    assert read(tables) == [{"n": 1, "LONGHAUL_BY_0": "a", "longhaul_by__0": "b", "p`q": "c"}]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("select 1L n, repeat('x', 5000) text", ExitCode.OK),
        ("select 1L n, if(id = 1, null, repeat('x', 5000)) text from range(2)", ExitCode.PERMANENT),
        ("select 1L n", ExitCode.PERMANENT),
    ],
)
def test_long_texts_go_into_a_column_that_is_not_null(
    run: Callable[..., ExitCode], tables: Tables, query: str, code: ExitCode
) -> None:
    fields = [{"name": "n", "type": "long"}, {"name": "text", "type": "string"}]
    columns = columns_of({"fields": fields}).fields
    schema = Schema(columns[0], columns[1].model_copy(update={"required": True}))
    tables.catalog.create_table(("lake", "events"), schema, PATH.location(BUCKET))

    assert run(writing(query=query)) is code

    assert [row["text"] for row in read(tables)] == (["x" * 5000] if code is ExitCode.OK else [])


def test_options_of_the_writer_are_those_of_the_tables_files(
    run: Callable[..., ExitCode], tables: Tables
) -> None:
    def write(spark: SparkSession, job: RunningJob[Any]) -> None:
        job.write(spark.range(100).coalesce(1).toDF("n"), options={"maxRecordsPerFile": "10"})

    assert run(write) is ExitCode.OK

    table = loaded(tables, PATH)
    assert [task.file.record_count for task in table.scan().plan_files()] == [10] * 10


def test_a_wide_table_is_looked_at_as_often_as_a_narrow_one(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Schema] = []
    as_struct = Schema.as_struct
    monkeypatch.setattr(Schema, "as_struct", lambda self: looks.append(self) or as_struct(self))
    counts = []
    for width in (1, 100):
        fields = [{"name": f"c{n}", "type": "long"} for n in range(width)]
        path = TablePath("lake", f"wide{width}")
        table = tables.catalog.create_table(
            ("lake", path.name), columns_of({"fields": fields}), path.location(BUCKET)
        )
        transaction = table.transaction()
        looks.clear()

        evolve(transaction, columns_of({"fields": [*fields, {"name": "x", "type": "long"}]}), ())

        counts.append(len(looks))
        assert len(transaction.table_metadata.schema().fields) == width + 1
    assert counts[0] == counts[1]


def test_a_table_and_prefixes_beside_it_are_written_by_one_attempt(
    run: Callable[..., ExitCode], cloud: Cloud, tables: Tables
) -> None:
    def write(spark: SparkSession, job: RunningJob[Any]) -> None:
        job.write(spark.sql("select 1 n"))
        job.write(spark.range(2), output="report", format="csv")
        job.write(spark.range(3), "more", output="report")
        for part in ("a", "b"):
            job.write(spark.range(4), output="parts", part=part)
        (job.files(output="files") / "a.txt").write_text("x")
        with pytest.raises(PermanentJobError, match=r"'outputs\.report' was written already"):
            job.write(spark.range(2), output="report")
        with pytest.raises(PermanentJobError, match=r"'outputs\.files' was written already"):
            job.files(output="files")

    names = ("report", "parts", "files")
    outputs = {name: f"s3://{BUCKET}/{name}/" for name in names}
    assert run(write, outputs=outputs, mode="overwrite_partitions") is ExitCode.OK

    assert read(tables) == [{"n": 1}]
    rows = {name: cloud.manifest(f"{name}/").rows for name in names}
    assert rows == {"report": {".": 2, "more": 3}, "parts": {".": 8}, "files": {}}


def test_files_of_a_jobs_own_go_to_a_prefix_beside_a_table_and_to_no_table(
    run: Callable[..., ExitCode], cloud: Cloud
) -> None:
    def write(spark: SparkSession, job: RunningJob[Any]) -> None:
        job.write(spark.range(1))
        job.files(output="other")

    assert run(write, outputs={"other": "table://lake/other"}) is ExitCode.PERMANENT
    assert cloud.result().error.startswith("outputs.other: this job writes files of its own")
