"""Drawn tables and filters, and what must hold for them.

Hostile values of all types, partitions, columns and partitionings that changed since. All that is
drawn follows from a seed. Rows are compared with those that were written, statistics with the
files' rows, and what filters find with what Spark finds in all rows.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType
from pyspark.sql import SparkSession

from longhaul.core.lease import AttemptId
from longhaul.core.places import TableInput, TablePath
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.publisher import S3Publisher
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.table_destination import TableDestination
from longhaul.runner.io.table_inputs import TablePlanner
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.stopping import Stop
from longhaul.testing import MakeJob
from tests.builders import BUCKET
from tests.runner.conftest import Cloud
from tests.runner.job_attempts import loaded
from tests.runner.row_deletes import delete_rows

PATH: Final = TablePath("lake", "drawn")
GROUPS: Final = "parquet.block.row.count.limit"
_LONG = "a" * 16
_MAX = "\U0010ffff" * 17  # no text is above, so it has no upper bound
_HUGE = 2.0**100  # the same in a float and in a double
FLOATS: Final = (0.0, -0.0, 1.5, -2.25, _HUGE, -_HUGE, inf, -inf, nan, nan)
TEXTS: Final = ("", "a", "ab", "a/b=c", "Z", "é", "\x00", " a ", "it's", _LONG, f"{_LONG}b", _MAX)
DAYS: Final = tuple(
    map(dt.date.fromisoformat, ("0001-01-01", "1969-12-31", "2026-02-28", "9999-12-31"))
)
TIMES: Final = tuple(
    map(
        dt.datetime.fromisoformat,
        (
            "0001-01-02T00:00:00.000001",
            "1969-12-31T23:59:59.999999",
            "1970-01-01T00:00:00",
            "2026-02-28T23:30:00",
            "9999-12-30T01:02:03.456",
        ),
    )
)
INSTANTS: Final = tuple(each.replace(tzinfo=dt.UTC) for each in TIMES)

# Spark's type of a column, and its values; None is added to each.
POOLS: Final[dict[str, tuple[str, Sequence[Any]]]] = {
    "i": ("int", (0, 1, -1, 7, 2**31 - 1, -(2**31))),
    "w": ("bigint", (0, 3, 2**31, 2**63 - 1, -(2**63))),
    "f": ("float", FLOATS),
    "d": ("double", FLOATS),
    "c": ("decimal(9,2)", tuple(map(Decimal, ("0.00", "1.50", "-0.01", "9999999.99")))),
    "big": (
        "decimal(25,3)",
        tuple(map(Decimal, ("0.000", "-1.125", "1234567890123456789012.125"))),
    ),
    "s": ("string", TEXTS),
    "b": ("boolean", (True, False)),
    "day": ("date", DAYS),
    "time": ("timestamp", INSTANTS),
    "ntz": ("timestamp_ntz", TIMES),
    "raw": ("binary", (b"", b"\xff" * 20, b"a")),
    "deep": ("struct<i: int, f: double, s: string>", ()),
    "many": ("array<double>", ((), (nan, None), (1.0,))),
    "m": ("map<string, int>", ({}, {"k": None}, {"k": 1, "": 2})),
}
PARTS: Final = (
    (),
    ("s",),
    ("i",),
    ("b", "day"),
    ("c",),
    ("day(time)",),
    ("month(day)",),
    ("year(ntz)",),
    ("hour(time)", "b"),
)
PARTED: Final = ("s", "i", "b", "day", "c", "time", "ntz")

# What filters compare a column with, and how they write it: ours, and Spark's.
_WHOLE = [str(max(n, -(2**63) + 1)) for n in (*POOLS["w"][1], 5)]
_REAL = (("0.0", "1.5", "-2.25", "3.0"), "{}", "double('{}')")
_TEXT = (("", "a", "ab", "Z", "é", "zz", _LONG, f"{_LONG}b", f"{_LONG}c"), "'{}'", "'{}'")
_INT = ([str(n) for n in (*POOLS["i"][1], 5)], "{}", "{}")
LITERALS: Final[dict[str, tuple[Sequence[str], str, str]]] = {
    "n": (_WHOLE, "{}", "{}"),
    "i": _INT,
    "w": (_WHOLE, "{}", "{}"),
    "f": _REAL,
    "d": _REAL,
    "c": (("0.00", "1.50", "-0.01", "7.00", "9999999.99"), "{}", "{}"),
    "big": (("0.000", "-1.125", "5.000"), "{}", "{}"),
    "s": _TEXT,
    "b": (("true", "false"), "{}", "{}"),
    "day": ((*map(str, DAYS), "2000-01-01"), "'{}'", "date'{}'"),
    "time": ([each.isoformat("T", "microseconds") for each in INSTANTS], "'{}'", "timestamp'{}'"),
    "ntz": ([each.isoformat("T", "microseconds") for each in TIMES], "'{}'", "timestamp_ntz'{}'"),
    "deep.i": _INT,
    "deep.f": _REAL,
    "deep.s": _TEXT,
}

Row = dict[str, Any]
Filter = tuple[str, str]
"""In our language, and in Spark's. NaN matches no comparison but `!=`, null matches none."""


def _value(random: Random, column: str) -> Any:
    if random.random() < 0.2:
        return None
    if column == "deep":
        return {each: _value(random, other) for each, other in (("i", "i"), ("f", "d"), ("s", "s"))}
    return random.choice(POOLS[column][1])


@dataclass
class DrawnTable:
    """What was written to a table, by the names that its columns have now."""

    tables: Tables
    s3: Any
    folder: Path
    make_job: MakeJob
    spark: SparkSession
    random: Random
    rows: dict[int, Row] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=lambda: {each: each for each in POOLS})
    """By the column's first name."""
    history: list[str] = field(default_factory=list)

    def draw(self) -> None:
        self._write(self.random.choice(PARTS))
        for _ in range(self.random.randint(1, 3)):
            change = self.random.choice(
                (self._rename, self._widen, self._part, self._drop, self._delete)
            )
            change()
            self.history.append(change.__name__)
            self._write()

    @property
    def table(self) -> Table:
        return loaded(self.tables, PATH)

    def filtered(self) -> dict[str, str]:
        """What filters may name: columns, and fields of structs, by their first names."""
        names = {}
        for column in LITERALS:
            first, dot, nested = column.partition(".")
            names[column] = f"{self.called.get(first, first)}{dot}{nested}"
        there = self._names()
        return {column: name for column, name in names.items() if name in there}

    def expected(self) -> dict[int, Row]:
        columns = [each for each in self._names() if each != "n" and "." not in each]
        return {
            n: {each: _plain(row.get(each)) for each in columns} for n, row in self.rows.items()
        }

    def staged(self, where: str = "") -> list[Path]:
        """The files that a job reads."""
        planner = TablePlanner(self.tables, lambda _: None)
        area = DiskArea(self.s3, self.folder, {})
        listing = InputListing(self.s3, BUCKET, lambda: planner)
        staged = area.stage(listing, {"rows": TableInput(PATH, None, where)}, Moving(Stop()))
        return [*Path(urlparse(staged["rows"].path).path).iterdir()]

    def file(self, uri: str) -> pa.Table:
        key = uri.removeprefix(f"s3://{BUCKET}/")
        return pq.read_table(BytesIO(self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()))

    def _write(self, partition_by: Sequence[str] = ()) -> None:
        begin = max(self.rows, default=-1) + 1
        count = self.random.randint(1, 25)
        # Few values at once, so that bounds leave out files.
        pools = {each: [_value(self.random, each) for _ in range(4)] for each in self.called}
        lacking = self.random.choice((0, 0, 0.2))
        columns = [
            each for each in self.called if each in PARTED or self.random.random() >= lacking
        ]
        rows = {}
        for n in range(begin, begin + count):
            rows[n] = {self.called[each]: self.random.choice(pools[each]) for each in columns}
        types = ", ".join(f"{self.called[each]} {POOLS[each][0]}" for each in columns)
        data = [(n, *row.values()) for n, row in rows.items()]
        df = self.spark.createDataFrame(data, f"n bigint, {types}")
        # As an attempt does.
        attempt = AttemptId(f"main#{len(self.history)}", 1, 1)
        destination = TableDestination(self.tables, PATH, "append", attempt, lambda _: None)
        job: Any = self.make_job({})
        job.table = destination
        self.spark.conf.set(GROUPS, "7")
        job.write(df.repartition(self.random.randint(1, 2)), partition_by=partition_by)
        self.spark.conf.unset(GROUPS)
        plan = destination.plan(job.written, InputListing(self.s3, BUCKET))
        Uploader(self.s3, BUCKET, Moving(Stop())).send(plan)
        S3Publisher(self.s3, BUCKET, tables=lambda: self.tables).publish(attempt)
        self.rows |= rows

    def _names(self) -> list[str]:
        return self.table.schema().column_names

    def _rename(self) -> None:
        there = self._names()
        column = self.random.choice(
            [each for each, name in self.called.items() if name in there and each not in PARTED]
        )
        new = f"{self.called[column]}_"
        with self.table.update_schema() as schema:
            schema.rename_column(self.called[column], new)
        self.rows = {
            n: {new if name == self.called[column] else name: value for name, value in row.items()}
            for n, row in self.rows.items()
        }
        self.called[column] = new

    def _widen(self) -> None:
        with self.table.update_schema() as schema:
            for column, kind in (("i", LongType()), ("f", DoubleType())):
                if self.random.random() < 0.7 and self.called[column] in self._names():
                    schema.update_column(self.called[column], kind)

    def _drop(self) -> None:
        """And the next write adds it again: without the values that it had."""
        column = self.random.choice(("d", "big", "w", "raw", "deep"))
        with self.table.update_schema() as schema:
            if self.called[column] in self._names():
                schema.delete_column(self.called[column])
        for row in self.rows.values():
            row.pop(self.called[column], None)

    def _part(self) -> None:
        """Later files are partitioned in another way."""
        table = self.table
        with table.update_spec() as spec:
            for each in table.spec().fields:
                spec.remove_field(each.name)
            column, transform = self.random.choice(
                (("i", IdentityTransform()), ("time", DayTransform()), ("s", IdentityTransform()))
            )
            spec.add_field(column, transform, f"by_{column}_{len(self.history)}")

    def _delete(self) -> None:
        table = self.table
        current = [
            task.file
            for task in table.scan().plan_files()
            if task.file.spec_id == table.spec().spec_id
        ]
        file = self.random.choice(current)
        numbers = self.file(file.file_path)["n"].to_pylist()
        at = sorted(self.random.sample(range(len(numbers)), k=min(2, len(numbers))))
        delete_rows(table, {file.file_path: at}, file.partition)
        for position in at:
            self.rows.pop(numbers[position], None)


def drawn_filter(random: Random, names: Mapping[str, str], depth: int = 2) -> Filter:
    kind = random.random()
    if depth and kind < 0.5:
        word = random.choice(("and", "or"))
        ours, sparks = zip(*(drawn_filter(random, names, depth - 1) for _ in range(2)), strict=True)
        return f"({ours[0]}) {word} ({ours[1]})", f"({sparks[0]}) {word} ({sparks[1]})"
    return _leaf(random, names, random.choice(tuple(names)), is_not=random.random() < 0.25)


_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}


def _leaf(random: Random, names: Mapping[str, str], column: str, *, is_not: bool) -> Filter:
    """`is_not`: with a `not` before it, which compares by the opposite."""
    name = names[column]
    no = "not " if is_not else ""
    is_float = LITERALS[column] is _REAL
    kind = random.random()
    if kind < 0.15:
        return (f"{no}{name} is null",) * 2
    if is_float and kind < 0.25:
        word = random.choice(("is nan", "is not nan"))
        is_nan = (word == "is nan") != is_not
        spark = f"{'' if is_nan else 'not '}isnan({name}) and {name} is not null"
        return f"{no}{name} {word}", spark
    if LITERALS[column] is _TEXT and kind < 0.35:
        prefix = random.choice(("a", "Z", _LONG, f"{_LONG}b", "é"))
        return f"{no}{name} like '{prefix}%'", f"{name} {no}like '{prefix}%'"
    if kind < 0.55:
        literals = [_literal(random, column) for _ in range(random.randint(2, 3))]
        word = random.choice(("in", "not in"))
        real = word if not is_not else {"in": "not in", "not in": "in"}[word]
        ours, spark = (", ".join(texts) for texts in zip(*literals, strict=True))
        return f"{no}{name} {word} ({ours})", f"{name} {real} ({spark})"
    operator = random.choice(tuple(_OPPOSITE))
    real = _OPPOSITE[operator] if is_not else operator
    ours, spark = _literal(random, column)
    but_nan = f" and not isnan({name})" if is_float and real in (">", ">=") else ""
    return f"{no}{name} {operator} {ours}", f"{name} {real} {spark}{but_nan}"


def _literal(random: Random, column: str) -> Filter:
    texts, ours, spark = LITERALS[column]
    text = random.choice(texts)
    return ours.format(text), spark.format(text)


def _plain(value: Any) -> Any:
    """A value that equals another if it is the same: a NaN, and each of the two zeros."""
    match value:
        case float():
            return repr(value)
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value


def _leaves(rows: pa.Table) -> Iterator[tuple[pa.Field, list[Any]]]:
    """The columns, and the fields of structs."""
    for column, chunks in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_struct(column.type):
            array = chunks.combine_chunks()
            for nested, values in zip(column.type, array.flatten(), strict=True):
                yield nested, values.to_pylist()
        elif not pa.types.is_nested(column.type):
            yield column, chunks.to_pylist()


def require_right_statistics(
    file: DataFile, kinds: Mapping[int, Any], column: pa.Field, values: Sequence[Any], told: str
) -> None:
    at = int(column.metadata[b"PARQUET:field_id"])
    there = [each for each in values if each is not None]
    numbers = [each for each in there if each == each]  # noqa: PLR0124 - a NaN is not
    nans = len(there) - len(numbers)
    counts = file.value_counts.get(at), file.null_value_counts.get(at)
    assert counts == (len(values), len(values) - len(there)), told
    assert file.nan_value_counts.get(at, nans) == nans, told
    if at not in kinds:  # dropped; and fields of structs have no bounds
        return
    low, high = (
        from_bytes(kinds[at], each[at]) if at in each else None
        for each in (file.lower_bounds, file.upper_bounds)
    )
    for value in numbers:
        stored: Any = from_bytes(kinds[at], to_bytes(kinds[at], value))
        assert low is None or low <= stored, told
        assert high is None or stored <= high, told
    assert low is not None or nans or not numbers, f"{told}: it has no lower bound"


@pytest.mark.parametrize(
    ("seed", "filters"),
    [(3, 6), *(pytest.param(n, 15, marks=pytest.mark.slow) for n in (1, 6, *range(100, 112)))],
)
def test_a_drawn_table_is_read_alike_by_all(
    cloud: Cloud,
    tables: Tables,
    tmp_path: Path,
    make_job: MakeJob,
    spark: SparkSession,
    seed: int,
    filters: int,
) -> None:
    drawn = DrawnTable(tables, cloud.s3, tmp_path / "area", make_job, spark, Random(seed))
    drawn.draw()
    told = f"seed {seed}: {'; '.join(drawn.history)}"
    files = drawn.staged()
    found = {
        row.pop("n"): {name: _plain(value) for name, value in row.items()}
        for file in files
        for row in pq.ParquetFile(file).read().to_pylist(maps_as_pydicts="strict")
    }
    assert found == drawn.expected(), told

    kinds = {each.field_id: each.field_type for each in drawn.table.schema().fields}
    for task in drawn.table.scan().plan_files():
        rows = drawn.file(task.file.file_path)
        assert task.file.record_count == len(rows), told
        for column, values in _leaves(rows):
            require_right_statistics(
                task.file, kinds, column, values, f"{told}: {task.file.file_path} {column.name}"
            )

    asked = [drawn_filter(drawn.random, drawn.filtered()) for _ in range(filters)]
    columns = [f"coalesce({each}, false) as f{n}" for n, (_, each) in enumerate(asked)]
    by_spark = spark.read.parquet(*map(str, files)).selectExpr("n", *columns).collect()
    for n, (where, _) in enumerate(asked):
        right = sorted(row["n"] for row in by_spark if row[f"f{n}"])
        ours = sorted(
            n
            for file in drawn.staged(where)
            for n in pq.ParquetFile(file).read(["n"])["n"].to_pylist()
        )
        assert ours == right, f"{told}: {where}"
