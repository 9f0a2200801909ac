"""A table as an input: Spark reads from the staged folder the rows that Iceberg's readers get."""

import datetime as dt
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto import mock_aws
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, MonthTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyspark.sql import SparkSession

from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId
from longhaul.core.places import TablePath, input_of
from longhaul.core.policy import require_file_readable
from longhaul.core.settings import PathPolicy
from longhaul.local.moto_repairs import glue as glue_repairs
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.lineage import JOB, marks, origin
from longhaul.runner.inputs import Inputs
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.table_inputs import TablePlanner
from longhaul.runner.io.transfer import InputChangingError, Moving, VanishedError
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.stopping import Stop
from tests.builders import BUCKET, settings, stage, there
from tests.runner.row_deletes import delete_rows
from tests.servers import repaired

PATH = TablePath("lake", "events")
NAME = ("lake", "events")
POLICY = PathPolicy(data_bucket=BUCKET, input_buckets=("landing",), table_databases=("lake",))
N = NestedField(1, "n", LongType(), required=False)
KIND = NestedField(2, "kind", StringType(), required=False)
DAY = NestedField(3, "day", DateType(), required=False)
COLUMNS = Schema(N, KIND, DAY)


class World:
    def __init__(self, folder: Path) -> None:
        self.s3 = boto3.client("s3")
        glue = boto3.client("glue")
        for bucket in (BUCKET, "landing", "foreign"):
            self.s3.create_bucket(Bucket=bucket)
        glue.create_database(DatabaseInput={"Name": "lake"})
        self.glue = glue
        self.tables = Tables(lambda: glue, self.s3, BUCKET)
        self.folder = folder
        self.listing = InputListing(self.s3, BUCKET)
        self.moved: list[tuple[str, int]] = []

    def create(self, schema: Schema = COLUMNS, **named: Any) -> Table:
        location = named.pop("location", PATH.location(BUCKET))
        return self.tables.catalog.create_table(NAME, schema, location, **named)

    def stage(self, text: str = str(PATH), **more: str) -> StagedInput:
        known = settings(paths=POLICY, stages=(stage(),))
        planner = TablePlanner(
            self.tables, lambda place: require_file_readable(place, known, known.stages[0])
        )
        self.listing = InputListing(self.s3, BUCKET, lambda: planner)
        area = DiskArea(self.s3, self.folder / f"area-{len(self.moved)}", {})
        moving = Moving(
            Stop(),
            lambda size: self.moved.append(("begin", size)),
            lambda size: self.moved.append(("advance", size)),
        )
        asked = {name: input_of(each) for name, each in {"events": text, **more}.items()}
        return area.stage(self.listing, asked, moving)["events"]

    def refusal(self, text: str = str(PATH)) -> str:
        with pytest.raises(PermanentJobError) as raised:
            self.stage(text)
        assert str(raised.value).startswith("input 'events': ")
        return str(raised.value)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with repaired(glue_repairs.versions), mock_aws():
        yield World(tmp_path)


def rows(*values: tuple[Any, ...], schema: Schema = COLUMNS) -> pa.Table:
    arrow = schema.as_arrow()
    columns = zip(*values, strict=True)
    return pa.table(
        [pa.array(each, kind) for each, kind in zip(columns, arrow.types, strict=True)],
        schema=arrow,
    )


def numbered(*numbers: int, kind: str = "a", day: int = 1) -> pa.Table:
    return rows(*((n, kind, dt.date(2026, 1, day)) for n in numbers))


def folder_of(staged: StagedInput) -> Path:
    return Path(urlparse(staged.path).path)


def read(staged: StagedInput) -> list[dict[str, Any]]:
    """The rows, file by file, as no reader that evens out columns would get them."""
    files = sorted(folder_of(staged).iterdir())
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=lambda row: int(row["n"]))


def numbers(staged: StagedInput) -> list[int]:
    return [row["n"] for row in read(staged)]


def data_files(table: Table) -> list[str]:
    return sorted(task.file.file_path for task in table.refresh().scan().plan_files())


def snapshot_of(table: Table) -> int:
    return there(table.refresh().current_snapshot()).snapshot_id


def by_iceberg(table: Table) -> list[dict[str, Any]]:
    found = table.refresh().scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: int(row["n"]))


def test_files_that_spark_reads_right_stay_as_they_are(world: World) -> None:
    table = world.create()
    table.append(numbered(1, 2))
    table.append(numbered(3))

    staged = world.stage()

    assert numbers(staged) == [1, 2, 3]
    assert staged.files == 2
    assert staged.extensions == {"parquet"}
    there = {
        world.s3.get_object(Bucket=BUCKET, Key=path.removeprefix(f"s3://{BUCKET}/"))["Body"].read()
        for path in data_files(table)
    }
    assert {file.read_bytes() for file in folder_of(staged).iterdir()} == there
    assert staged.size_bytes == sum(map(len, there))
    assert [kind for kind, _ in world.moved].count("begin") == 1


def put_as_is(world: World, table: Table, added: pa.Table, drop: Sequence[str] = ()) -> None:
    """Append by pyiceberg, then put the rows into the file as they are, less some columns.

    pyiceberg makes null lists of structs empty ones.
    """
    known = set(data_files(table))
    table.append(added)
    (path,) = set(data_files(table)) - known
    sink = pa.BufferOutputStream()
    with_ids = schema_to_pyarrow(table.schema(), include_field_ids=True)
    pq.write_table(added.cast(with_ids).drop_columns(list(drop)), sink)
    key = path.removeprefix(f"s3://{BUCKET}/")
    world.s3.put_object(Bucket=BUCKET, Key=key, Body=sink.getvalue().to_pybytes())


def test_columns_are_those_of_now(world: World, spark: SparkSession) -> None:
    table = world.create(
        Schema(
            NestedField(1, "n", IntegerType(), required=False),
            KIND,
            NestedField(3, "gone", StringType(), required=False),
            NestedField(
                4,
                "deep",
                StructType(
                    NestedField(5, "x", IntegerType(), required=False),
                    NestedField(6, "y", StringType(), required=False),
                ),
                required=False,
            ),
            NestedField(
                7,
                "many",
                ListType(8, StructType(NestedField(9, "z", IntegerType(), required=False)), False),
                required=False,
            ),
        )
    )
    old = [
        (1, "a", "g", {"x": 1, "y": "y"}, [{"z": 1}, None]),
        (2, None, "g", None, None),
        (3, "", "g", {"x": None, "y": None}, []),
    ]
    put_as_is(world, table, rows(*old, schema=table.schema()))
    with table.update_schema() as update:
        update.rename_column("kind", "sort")
        update.update_column("n", LongType())
        update.delete_column("gone")
        update.rename_column("deep.y", "why")
        update.update_column("deep.x", LongType())
        update.update_column("many.element.z", LongType())
        update.add_column("more", StringType())
    with table.update_schema() as update:
        update.add_column("gone", StringType())
    new = (4, "b", {"x": 4, "why": "w"}, [{"z": 4}], "m", "new")
    table.append(rows(new, schema=table.schema()))

    staged = world.stage()

    names = ("n", "sort", "deep", "many", "more", "gone")
    want = [
        dict(zip(names, row, strict=True))
        for row in (
            (1, "a", {"x": 1, "why": "y"}, [{"z": 1}, None], None, None),
            (2, None, None, None, None, None),
            (3, "", {"x": None, "why": None}, [], None, None),
            (4, "b", {"x": 4, "why": "w"}, [{"z": 4}], "m", "new"),
        )
    ]
    assert read(staged) == want
    frame = spark.read.parquet(staged.path)
    assert frame.dtypes == [
        ("n", "bigint"),
        ("sort", "string"),
        ("deep", "struct<x:bigint,why:string>"),
        ("many", "array<struct<z:bigint>>"),
        ("more", "string"),
        ("gone", "string"),
    ]
    assert [row.asDict(recursive=True) for row in frame.orderBy("n").collect()] == want


@pytest.mark.parametrize("count", [3, 40_000])
def test_deleted_rows_are_left_out(world: World, count: int) -> None:
    table = world.create()
    table.append(numbered(*range(count)))
    table.append(numbered(*range(count, count + 3)))
    first, second = sorted(
        data_files(table),
        key=lambda path: (
            -next(
                task.file.record_count
                for task in table.scan().plan_files()
                if task.file.file_path == path
            )
        ),
    )
    delete_rows(table, {first: [0, count - 1], second: [1]})
    delete_rows(table.refresh(), {first: [0, 1]})
    table.refresh().append(numbered(count + 3))

    staged = world.stage()

    gone = {0, 1, count - 1, *((0, 1) if count == 3 else ())}
    found = numbers(staged)
    assert len(found) == count + 4 - len(gone | {count + 1})
    assert found == [row["n"] for row in by_iceberg(table)]
    assert ("begin", world.moved[0][1]) == world.moved[0]
    assert [kind for kind, _ in world.moved].count("begin") == 2  # the download, and the rewrite


def test_a_snapshot_is_read_with_its_own_columns(world: World) -> None:
    table = world.create()
    table.append(numbered(1))
    then = snapshot_of(table)
    table.append(numbered(2))
    with table.update_schema() as update:
        update.rename_column("kind", "sort")

    assert [set(row) for row in read(world.stage())] == [{"n", "sort", "day"}] * 2
    (row,) = read(world.stage(f"{PATH}@{then}"))
    assert row == {"n": 1, "kind": "a", "day": dt.date(2026, 1, 1)}
    (row,) = read(world.stage(f"{PATH}@{then}?kind = 'a'"))
    assert row["n"] == 1
    assert read(world.stage(f"{PATH}@{then}?kind = 'z'")) == []
    assert "has no snapshot 17: it never was, or expired" in world.refusal(f"{PATH}@17")


def test_all_inputs_from_a_table_are_of_one_version_which_an_overwrite_replaces(
    world: World,
) -> None:
    table = world.create()
    table.append(numbered(1))
    first = snapshot_of(table)

    world.stage(other=f"{PATH}?n = 1", old=f"{PATH}@{first}")

    assert world.listing.versions[PATH].snapshot == first


def test_what_wrote_a_tables_rows_is_known(world: World) -> None:
    table = world.create()
    attempt = AttemptId("clean#a/1", 7, 2)
    whole = origin(attempt, dt.datetime(2026, 10, 7, tzinfo=dt.UTC), [])
    results = {"value": {"days": 7}, "rows": {".": 1}}
    summary = {JOB: attempt.key, **marks(whole, results)}
    table.append(numbered(1), snapshot_properties=summary)

    staged = world.stage()

    inputs = {"events": input_of(f"{PATH}?n = 1")}
    (parent,) = Inputs(inputs, {}, world.listing).parents().values()
    assert (parent.id, parent.stage, parent.run, parent.attempt) == ("a/1", "clean", 7, 2)
    assert (parent.result, parent.rows) == ({"days": 7}, {".": 1})
    (read,) = Inputs(inputs, {"events": staged}, world.listing).reads()
    assert read.version == str(snapshot_of(table))
    assert read.path == str(PATH)
    assert [each.id for each in read.writers] == [attempt]

    table.append(numbered(2))
    world.stage()
    assert Inputs(inputs, {}, world.listing).parents() == {}


@pytest.mark.parametrize(
    ("where", "expected", "downloaded"),
    [
        ("kind = 'a'", [0, 1, 2, 3], 2),
        ("kind is null", [9], 1),
        ("n > 2 and kind = 'a'", [3], 1),
        ("day >= '2026-01-02'", [2, 3, 4], 2),
        ("day >= '2026-01-03' or n = 0", [0, 4], 2),
        ("n = 77", [], 0),
    ],
)
def test_a_filter_leaves_out_files_and_rows(
    world: World, where: str, expected: list[int], downloaded: int
) -> None:
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "kind"),
        PartitionField(3, 1001, MonthTransform(), "day_month"),
    )
    table = world.create(partition_spec=spec, properties={"schema.name-mapping.default": NAMES})
    first, second, third = (dt.date(2026, 1, day) for day in (1, 2, 3))
    for n, part in enumerate(
        (
            [(0, "a", first), (1, "a", first)],
            [(2, "a", second), (3, "a", second)],
            [(4, "b", third), (5, "b", first)],
            [(9, None, first)],
        )
    ):
        columns = dict(
            zip(COLUMNS.column_names, map(pa.array, zip(*part, strict=True)), strict=True)
        )
        columns["kind"] = columns["kind"].cast(pa.string())
        add_foreign_file(world, table, columns, f"{table.location()}/{n}.parquet")

    staged = world.stage(f"{PATH}?{where}")

    assert numbers(staged) == expected
    assert staged.files == max(1, downloaded)
    assert pq.read_schema(next(folder_of(staged).iterdir())).names == ["n", "kind", "day"]


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize(
    ("column", "values", "filters"),
    [
        # Null matches no negation.
        (
            KIND,
            [(0, None, None), (1, "a", None), (2, "b", None)],
            {
                "kind != 'a'": [2],
                "not kind = 'a'": [2],
                "kind not in ('a', 'z')": [2],
                "not (kind in ('a', 'z') or n = 1)": [2],
                "kind not like 'a%'": [2],
                "kind != 'a' or kind is null": [0, 2],
            },
        ),
        # Pyiceberg compares the value of a null partition with the filter's.
        (
            DAY,
            [(0, "a", None), (1, "a", dt.date(2026, 1, 1)), (2, "b", dt.date(2026, 2, 1))],
            {
                "day >= '2026-02-01' or day is null": [0, 2],
                "day < '2026-02-01' or n < 0": [1],
                "day in ('2026-02-01', '2026-03-01') or n = 0": [0, 2],
            },
        ),
    ],
    ids=["texts", "days"],
)
def test_a_filter_takes_nulls_alike_however_the_table_is_partitioned(
    world: World,
    column: NestedField,
    values: list[tuple[Any, ...]],
    filters: Mapping[str, list[int]],
    *,
    partitioned: bool,
) -> None:
    by = PartitionSpec(PartitionField(column.field_id, 1000, IdentityTransform(), column.name))
    world.create(partition_spec=by if partitioned else PartitionSpec()).append(rows(*values))

    assert {where: numbers(world.stage(f"{PATH}?{where}")) for where in filters} == filters


def test_a_mistake_of_another_kind_is_not_taken_for_a_null_partition(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create().append(numbered(1))

    def plan(_: Any) -> None:
        raise TypeError("'<' not supported between instances of 'str' and 'int'")

    monkeypatch.setattr("pyiceberg.table.DataScan.plan_files", plan)

    with pytest.raises(TypeError, match="'str' and 'int'"):
        world.stage(f"{PATH}?n > 0")


@pytest.mark.parametrize(
    ("kind", "values", "filters"),
    [
        (
            DecimalType(9, 2),
            [Decimal("0.00"), Decimal("1.50"), Decimal("2.25"), None],
            {
                "x in (0.00, 1.50)": [0, 1],
                "x not in (0.00, 7.00)": [1, 2],
                "not x = 1.50": [0, 2],
                "x > 0.50 and x < 2.30": [1, 2],
                "x = 1": [],
            },
        ),
        # One zero, and no NaN.
        (
            DoubleType(),
            [0.0, -0.0, 1.0, float("nan"), None],
            {
                "x = 0.0": [0, 1],
                "x in (0.0, 1.0)": [0, 1, 2],
                "x not in (0.0, 2.0)": [2, 3],
                "x > 0": [2],
                "x is nan": [3],
                "x > 0 or x is nan": [2, 3],
            },
        ),
        # A list compares no boolean with a number.
        (
            BooleanType(),
            [True, False, None],
            {
                "x in (true, false)": [0, 1],
                "x not in (true, false)": [],
                "n in (0, 2)": [0, 2],
                "n not in (0, 2)": [1],
            },
        ),
    ],
    ids=str,
)
def test_a_filter_finds_values_of_each_type(
    world: World, kind: Any, values: list[Any], filters: Mapping[str, list[int]]
) -> None:
    table = world.create(Schema(N, NestedField(3, "x", kind, required=False)))
    schema = table.schema().as_arrow()
    table.append(pa.table({"n": range(len(values)), "x": pa.array(values)}, schema=schema))

    assert {where: numbers(world.stage(f"{PATH}?{where}")) for where in filters} == filters


def test_a_filter_of_a_structs_field_looks_at_that_field(world: World) -> None:
    deep = StructType(NestedField(4, "n", LongType(), required=False))
    table = world.create(Schema(N, NestedField(3, "deep", deep, required=False)))
    values = [
        {"n": 0, "deep": {"n": 7}},
        {"n": 1, "deep": {"n": None}},
        {"n": 7, "deep": None},
        {"n": 3, "deep": {"n": 1}},
    ]
    table.append(pa.Table.from_pylist(values, table.schema().as_arrow()))

    for where, expected in (
        ("deep.n = 7", [0]),
        ("deep.n is null", [1, 7]),
        ("n = 3 and deep.n = 1", [3]),
    ):
        assert numbers(world.stage(f"{PATH}?{where}")) == expected, where


def test_a_number_that_a_column_cannot_hold_is_refused(world: World) -> None:
    """Pyiceberg would compare with another one."""
    columns = {"i": IntegerType(), "f": FloatType(), "c": DecimalType(3, 1)}
    world.create(Schema(N, *(NestedField(n, *each) for n, each in enumerate(columns.items(), 3))))
    for where, said in (
        ("n = 2.5", "n is long: compare it with whole numbers"),
        ("not n <= 2.5", "n is long: compare it with whole numbers"),
        ("n in (2.5, 3.0)", "n is long: compare it with whole numbers"),
        ("n < 9223372036854775808", "n is long, which has no 9223372036854775808"),
        ("i not in (1, -2147483649)", "i is int, which has no -2147483649"),
        (f"f > 1{'0' * 39}", "f is float, which has no 1000"),
        ("c >= -100.0", "c is decimal(3, 1), which has no -100.0"),
    ):
        assert f"column {said}" in world.refusal(f"{PATH}?{where}"), where
    assert "1.55 into a decimal(3, 1)" in world.refusal(f"{PATH}?c > 1.55")


def test_int96_timestamps_are_read_as_they_are_in_any_year(
    world: World, spark: SparkSession
) -> None:
    columns = Schema(N, NestedField(2, "at", TimestamptzType(), required=False))
    names = '[{"field-id": 1, "names": ["n"]}, {"field-id": 2, "names": ["at"]}]'
    table = world.create(columns, properties={"schema.name-mapping.default": names})
    years = (1600, 2020, 9999)
    times = [dt.datetime(year, 12, 31, 1, 2, 3, 456, tzinfo=dt.UTC) for year in years]
    table.append(pa.table({"n": [0, 1, 2], "at": times}, schema=table.schema().as_arrow()))
    (uri,) = data_files(table)
    # As Hive, Impala and old Sparks write it. Only its place is known to the table.
    hive = spark.createDataFrame(list(enumerate(times)), "n long, at timestamp").coalesce(1)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        hive.write.parquet((world.folder / "hive").as_uri())
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    (file,) = (world.folder / "hive").glob("part-*.parquet")
    assert pq.ParquetFile(file).schema.column(1).physical_type == "INT96"
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    world.s3.upload_file(str(file), bucket, key)

    staged = world.stage(f"{PATH}?n >= 0")

    assert [row["at"] for row in read(staged)] == times


def test_a_table_without_rows_has_its_columns(world: World, spark: SparkSession) -> None:
    world.create()

    staged = world.stage()

    assert staged.files == 1
    frame = spark.read.parquet(staged.path)
    assert frame.dtypes == [("n", "bigint"), ("kind", "string"), ("day", "date")]
    assert frame.count() == 0
    assert world.listing.versions[PATH].snapshot is None


def test_columns_that_are_in_the_partition_alone_are_filled_from_it(world: World) -> None:
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "kind"),
        PartitionField(3, 1001, IdentityTransform(), "day"),
    )
    table = world.create(partition_spec=spec)
    day = dt.date(2026, 1, 31)
    for n, kind in enumerate(("", "a/b", None)):
        put_as_is(world, table, rows((n, kind, day)), drop=["kind", "day"])

    want = [{"n": n, "kind": kind, "day": day} for n, kind in enumerate(("", "a/b", None))]
    assert read(world.stage()) == want
    assert numbers(world.stage(f"{PATH}?kind = 'a/b'")) == [1]


NAMES = (
    '[{"field-id": 1, "names": ["n"]}, {"field-id": 2, "names": ["kind"]},'
    ' {"field-id": 3, "names": ["day"]}]'
)


def add_foreign_file(world: World, table: Table, columns: Mapping[str, Any], uri: str) -> None:
    """A file without field ids, as Hive and Spark leave them."""
    bucket, _, key = uri.split("://", 1)[1].partition("/")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink)
    world.s3.put_object(Bucket=bucket, Key=key, Body=sink.getvalue().to_pybytes())
    table.refresh().add_files([uri], check_duplicate_files=False)


def test_files_without_ids_are_read_by_the_names_that_the_table_maps(world: World) -> None:
    table = world.create(properties={"schema.name-mapping.default": NAMES})
    days = pa.array([dt.date(2026, 1, 1)])
    same = {"n": pa.array([1]), "kind": pa.array(["x"]), "day": days}
    add_foreign_file(world, table, same, f"{PATH.location(BUCKET)}/a.parquet")
    with table.refresh().update_schema() as update:
        update.rename_column("kind", "sort")
    other = {"day": days, "sort": pa.array(["y"]), "n": pa.array([2])}
    add_foreign_file(world, table, other, "s3://landing/b.parquet")

    assert [(row["n"], row["sort"]) for row in read(world.stage())] == [(1, "x"), (2, "y")]

    with table.refresh().transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    assert "has no field ids, and the table no schema.name-mapping.default" in world.refusal()


def test_types_that_spark_reads_otherwise_are_those_of_icebergs_own_reader(
    world: World, spark: SparkSession
) -> None:
    schema = Schema(N, NestedField(2, "id", UUIDType(), required=False))
    value = uuid.UUID("12345678-1234-5678-1234-567812345678")
    table = world.create(schema)
    ids = pa.array([value.bytes, None, value.bytes], pa.uuid())
    table.append(pa.table({"n": [1, 2, 3], "id": ids}))
    (path,) = data_files(table)
    delete_rows(table, {path: [2]})

    staged = world.stage()

    assert [row.id for row in spark.read.parquet(staged.path).orderBy("n").collect()] == [
        str(value),
        None,
    ]


def test_a_type_that_spark_does_not_know_is_refused(world: World) -> None:
    world.create(Schema(N, NestedField(2, "at", TimeType(), required=False)))
    assert "column at is time, which Spark does not read" in world.refusal()


def test_a_table_that_is_dropped_while_it_is_read_may_be_there_next_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create().append(numbered(1))

    def drop(*_: object) -> None:
        world.glue.delete_table(DatabaseName="lake", Name="events")
        raise VanishedError("a file of it")

    monkeypatch.setattr(DiskArea, "_download", drop)
    with pytest.raises(InputChangingError, match="input 'events': there is no table"):
        world.stage()


def test_what_cannot_be_read_right_is_refused_by_name(world: World) -> None:
    assert f"there is no table {PATH}" in world.refusal()
    assert "there is no table table://nowhere/events" in world.refusal("table://nowhere/events")
    table = world.create()
    table.append(numbered(1))
    (path,) = data_files(table)
    assert "its filter cannot be used" in world.refusal(f"{PATH}?n ==== 1")
    assert re.search("its filter cannot be used: .*nothing", world.refusal(f"{PATH}?nothing = 1"))

    delete_rows(table, {path: [0]}, file_format=FileFormat.AVRO)
    assert "is AVRO: Longhaul reads tables of Parquet files" in world.refusal()
    delete_rows(table.refresh(), {path: [0]}, content=DataFileContent.EQUALITY_DELETES)
    assert "has equality deletes" in world.refusal()


def test_an_older_snapshot_without_equality_deletes_can_be_read(world: World) -> None:
    table = world.create()
    table.append(numbered(1))
    then = snapshot_of(table)
    (path,) = data_files(table)
    delete_rows(table, {path: [0]}, content=DataFileContent.EQUALITY_DELETES)

    assert numbers(world.stage(f"{PATH}@{then}")) == [1]


def test_format_3_is_refused(world: World) -> None:
    table = world.create()
    place = table.metadata_location.removeprefix(f"s3://{BUCKET}/")
    metadata = json.loads(world.s3.get_object(Bucket=BUCKET, Key=place)["Body"].read())
    newer = json.dumps({**metadata, "format-version": 3, "next-row-id": 0})
    world.s3.put_object(Bucket=BUCKET, Key=place, Body=newer.encode())
    assert "has Iceberg's format 3: Longhaul reads up to 2" in world.refusal()


def test_what_is_no_iceberg_table_is_refused(world: World) -> None:
    world.glue.create_table(DatabaseName="lake", TableInput={"Name": "events"})
    assert f"{PATH} is no Iceberg table" in world.refusal()


def test_files_in_places_that_the_job_may_not_read_are_refused(world: World) -> None:
    table = world.create(properties={"schema.name-mapping.default": NAMES})
    columns = {"n": pa.array([1]), "kind": pa.array(["x"]), "day": pa.array([dt.date(2026, 1, 1)])}
    add_foreign_file(world, table, columns, "s3://foreign/secret.parquet")
    assert "the table's file s3://foreign/secret.parquet: this bucket" in world.refusal()

    there(world.tables.find(PATH)).delete()
    add_foreign_file(world, table, columns, f"s3://{BUCKET}/longhaul/requests/x.parquet")
    assert "in the data bucket is Longhaul's own" in world.refusal()


def test_a_file_that_is_gone_is_looked_for_twice(world: World) -> None:
    table = world.create()
    table.append(numbered(1))
    (path,) = data_files(table)
    world.s3.delete_object(Bucket=BUCKET, Key=path.removeprefix(f"s3://{BUCKET}/"))

    with pytest.raises(InputChangingError, match="keeps changing"):
        world.stage()


def test_an_engine_without_tables_says_so(world: World, tmp_path: Path) -> None:
    area, listing = DiskArea(world.s3, tmp_path, {}), InputListing(world.s3, BUCKET)
    with pytest.raises(PermanentJobError, match="'events': this engine reads no tables"):
        area.stage(listing, {"events": input_of(str(PATH))}, Moving(Stop()))
