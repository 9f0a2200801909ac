"""Drawn tables and filters, and what must hold for them.

Hostile values of all types, partitions, columns and partitionings that changed since. All that is
drawn follows from a seed.
"""

import datetime as dt
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType
from pyspark.sql import SparkSession

from longhaul.runner.io.table_inputs import parse_filter
from tests.runner.row_deletes import delete_rows
from tests.runner.spark_lake import SparkLake

GROUPS = "parquet.block.row.count.limit"
_LONG = "a" * 16
_MAX = "\U0010ffff" * 17  # no text is above, so it has no upper bound
FLOATS: Final = (0.0, -0.0, 1.5, -2.25, 1e30, -1e30, inf, -inf, nan, nan)
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
FILTERED: Final = (
    "n",
    "i",
    "w",
    "f",
    "d",
    "c",
    "big",
    "s",
    "b",
    "day",
    "time",
    "ntz",
    "deep.i",
    "deep.f",
    "deep.s",
)
_FLOATS: Final = ("f", "d", "deep.f")

Row = dict[str, Any]


def _value(random: Random, column: str) -> Any:
    if random.random() < 0.2:
        return None
    if column == "deep":
        return {each: _value(random, other) for each, other in (("i", "i"), ("f", "d"), ("s", "s"))}
    return random.choice(POOLS[column][1])


@dataclass
class DrawnTable:
    """What was written to a table, by the names that its columns have now."""

    lake: SparkLake
    spark: SparkSession
    random: Random
    name: str
    rows: dict[int, Row] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)  # by the column's first name
    history: list[str] = field(default_factory=list)

    @classmethod
    def drawn(cls, lake: SparkLake, spark: SparkSession, seed: int) -> "DrawnTable":
        random = Random(seed)
        self = cls(lake, spark, random, f"t{seed}")
        self.called = {each: each for each in POOLS}
        self._write(random.choice(PARTS))
        for _ in range(random.randint(1, 3)):
            change = random.choice(
                (self._rename, self._widen, self._part, self._drop, self._delete)
            )
            change()
            self._write()
        return self

    def filtered(self) -> dict[str, str]:
        """What filters may name: columns, and fields of structs, by their first names."""
        names = {}
        for column in FILTERED:
            first, dot, nested = column.partition(".")
            names[column] = f"{self.called.get(first, first)}{dot}{nested}"
        there = self._names()
        return {column: name for column, name in names.items() if name in there}

    def expected(self) -> dict[int, Row]:
        columns = [each for each in self._names() if each != "n" and "." not in each]
        floats = self.called["f"]
        return {
            n: {
                each: _plain(_as_float(row.get(each)) if each == floats else row.get(each))
                for each in columns
            }
            for n, row in self.rows.items()
        }

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
        self.spark.conf.set(GROUPS, "7")
        self.lake.write(
            self.name, df.repartition(self.random.randint(1, 2)), partition_by=partition_by
        )
        self.spark.conf.unset(GROUPS)
        self.rows |= rows
        self.history.append(f"write {count} {','.join(partition_by)}")

    @property
    def has_whole_files(self) -> bool:
        """Whether each file has all columns."""
        return all(len(row) == len(self.called) for row in self.rows.values())

    def _names(self) -> list[str]:
        return self.lake.table(self.name).schema().column_names

    def _rename(self) -> None:
        there = self._names()
        column = self.random.choice(
            [each for each, name in self.called.items() if name in there and each not in PARTED]
        )
        new = f"{self.called[column]}_"
        with self.lake.table(self.name).update_schema() as schema:
            schema.rename_column(self.called[column], new)
        self.rows = {
            n: {new if name == self.called[column] else name: value for name, value in row.items()}
            for n, row in self.rows.items()
        }
        self.called[column] = new
        self.history.append(f"rename {column}")

    def _widen(self) -> None:
        with self.lake.table(self.name).update_schema() as schema:
            for column, kind in (("i", LongType()), ("f", DoubleType())):
                if self.random.random() < 0.7 and self.called[column] in self._names():
                    schema.update_column(self.called[column], kind)
        self.history.append("widen")

    def _drop(self) -> None:
        """And the next write adds it again: without the values that it had."""
        column = self.random.choice(("d", "big", "w", "raw", "deep"))
        with self.lake.table(self.name).update_schema() as schema:
            if self.called[column] in self._names():
                schema.delete_column(self.called[column])
        for row in self.rows.values():
            row.pop(self.called[column], None)
        self.history.append(f"drop {column}")

    def _part(self) -> None:
        """Later files are partitioned in another way."""
        table = self.lake.table(self.name)
        with table.update_spec() as spec:
            for each in table.spec().fields:
                spec.remove_field(each.name)
            column, transform = self.random.choice(
                (("i", IdentityTransform()), ("time", DayTransform()), ("s", IdentityTransform()))
            )
            spec.add_field(column, transform, f"by_{column}_{len(self.history)}")
        self.history.append(f"part by {column}")

    def _delete(self) -> None:
        table = self.lake.table(self.name)
        current = [
            task.file
            for task in table.scan().plan_files()
            if task.file.spec_id == table.spec().spec_id
        ]
        file = self.random.choice(current)
        numbers = self.lake.file(file.file_path)["n"].to_pylist()
        at = sorted(self.random.sample(range(len(numbers)), k=min(2, len(numbers))))
        delete_rows(table, {file.file_path: at}, file.partition)
        for position in at:
            self.rows.pop(numbers[position], None)
        self.history.append("delete rows")


@dataclass(frozen=True)
class Filter:
    """One filter in three languages. NaN matches no comparison but `!=`, null matches none."""

    ours: str
    spark: str
    duckdb: str


def _literal(random: Random, column: str) -> tuple[str, str, str]:
    last = {"deep.i": "i", "deep.f": "d", "deep.s": "s", "n": "w"}.get(column, column)
    match last:
        case "i" | "w":
            value = max(random.choice((*POOLS[last][1], 5)), -(2**63) + 1)
            return (str(value),) * 3
        case "f" | "d":
            text = random.choice(("0.0", "1.5", "-2.25", "3.0"))
            return text, f"double('{text}')", f"'{text}'::DOUBLE"
        case "c":
            return (random.choice(("0.00", "1.50", "-0.01", "7.00", "9999999.99")),) * 3
        case "big":
            return (random.choice(("0.000", "-1.125", "5.000")),) * 3
        case "b":
            return (random.choice(("true", "false")),) * 3
        case "s":
            text = random.choice(("", "a", "ab", "Z", "é", "zz", _LONG, f"{_LONG}b", f"{_LONG}c"))
            return (f"'{text}'",) * 3
        case "day":
            text = random.choice((*map(str, DAYS), "2000-01-01"))
            return f"'{text}'", f"date'{text}'", f"DATE '{text}'"
        case "time":
            text = random.choice(INSTANTS).isoformat(timespec="microseconds")
            return f"'{text}'", f"timestamp'{text}'", f"TIMESTAMPTZ '{text}'"
        case _:
            text = random.choice(TIMES).isoformat(timespec="microseconds")
            return f"'{text}'", f"timestamp_ntz'{text}'", f"TIMESTAMP '{text}'"


def drawn_filter(random: Random, names: Mapping[str, str], depth: int = 2) -> Filter:
    kind = random.random()
    if depth and kind < 0.5:
        word = random.choice(("and", "or"))
        parts = [drawn_filter(random, names, depth - 1) for _ in range(2)]
        return Filter(
            *(
                f"({getattr(parts[0], each)}) {word} ({getattr(parts[1], each)})"
                for each in _LANGUAGES
            )
        )
    return _leaf(random, names, random.choice(tuple(names)), is_not=random.random() < 0.25)


_LANGUAGES: Final = ("ours", "spark", "duckdb")
_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}


def _leaf(random: Random, names: Mapping[str, str], column: str, *, is_not: bool) -> Filter:
    """`is_not`: with a `not` before it, which compares by the opposite."""
    name = names[column]
    no = "not " if is_not else ""
    is_float = column in _FLOATS
    kind = random.random()
    if kind < 0.15:
        text = f"{name} is null"
        return Filter(*(f"{no}{text}",) * 3)
    if is_float and kind < 0.25:
        word = random.choice(("is nan", "is not nan"))
        is_nan = (word == "is nan") != is_not
        shown = f"{'' if is_nan else 'not '}isnan({name}) and {name} is not null"
        return Filter(f"{no}{name} {word}", shown, shown)
    if column in ("s", "deep.s") and kind < 0.35:
        prefix = random.choice(("a", "Z", _LONG, f"{_LONG}b", "é"))
        shown = f"{name} {'not ' if is_not else ''}like '{prefix}%'"
        return Filter(f"{no}{name} like '{prefix}%'", shown, shown)
    if kind < 0.55:
        literals = [_literal(random, column) for _ in range(random.randint(2, 3))]
        word = random.choice(("in", "not in"))
        real = word if not is_not else {"in": "not in", "not in": "in"}[word]
        lists = [", ".join(texts) for texts in zip(*literals, strict=True)]
        return Filter(
            f"{no}{name} {word} ({lists[0]})", *(f"{name} {real} ({each})" for each in lists[1:])
        )
    operator = random.choice(tuple(_OPPOSITE))
    real = _OPPOSITE[operator] if is_not else operator
    literal = _literal(random, column)
    others = [f"{name} {real} {each}" for each in literal[1:]]
    if is_float and real in (">", ">="):
        others = [f"{each} and not isnan({name})" for each in others]
    return Filter(f"{no}{name} {operator} {literal[0]}", *others)


def require_right(lake: SparkLake, spark: SparkSession, seed: int, filters: int) -> None:
    """Draw a table, and compare its rows, its statistics and what filters find."""
    table = DrawnTable.drawn(lake, spark, seed)
    told = f"seed {seed}: {'; '.join(table.history)}"
    staged = lake.stage(table.name)
    found = {
        row.pop("n"): {name: _plain(value) for name, value in row.items()}
        for file in staged.iterdir()
        for row in pq.ParquetFile(file).read().to_pylist(maps_as_pydicts="strict")
    }
    expected = table.expected()
    differing = [
        (n, each, found.get(n, {}).get(each), expected.get(n, {}).get(each))
        for n in sorted({*found, *expected})
        for each in {**found.get(n, {}), **expected.get(n, {})}
        if found.get(n, {}).get(each, "?") != expected.get(n, {}).get(each, "?")
    ]
    assert not differing, f"{told}\n{differing[:5]}"
    assert _wrong_statistics(lake, table.name) == [], told

    drawn = [drawn_filter(table.random, table.filtered()) for _ in range(filters)]
    different = list(_differences(table, staged, drawn))
    assert not different, "\n".join([told, *different])


def _readers(table: DrawnTable, where: Filter) -> Iterator[tuple[str, list[int]]]:
    """What each reader finds, unless it is known to be wrong there."""
    lake, name = table.lake, table.name
    now = lake.table(name)
    yield "ours", lake.ours(name, where.ours)
    # pyiceberg takes a field of a struct for the column of the same name, and compares the value of
    # a null partition with the filter's.
    if "deep" not in where.ours:
        with suppress(TypeError):
            yield "pyiceberg", lake.by_pyiceberg(name, parse_filter(where.ours, now.schema()))
    yield "duckdb", lake.by_duckdb(name, where.duckdb)


def _differences(table: DrawnTable, staged: Path, drawn: Sequence[Filter]) -> Iterator[str]:
    asked = [f"coalesce({each.spark}, false) as f{n}" for n, each in enumerate(drawn)]
    rows = table.spark.read.parquet(staged.as_uri()).selectExpr("n", *asked).collect()
    for n, each in enumerate(drawn):
        right = sorted(row["n"] for row in rows if row[f"f{n}"])
        for reader, found in _readers(table, each):
            if found != right:
                yield f"{each.ours}: {reader} finds {found} instead of {right}"


def _as_float(value: float | None) -> float | None:
    return value if value is None else struct.unpack("f", struct.pack("f", value))[0]


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


def _wrong_statistics(lake: SparkLake, name: str) -> list[str]:
    table = lake.table(name)
    wrong = []
    for task in table.scan().plan_files():
        rows = lake.file(task.file.file_path)
        if task.file.record_count != len(rows):
            wrong.append(f"{task.file.record_count} rows instead of {len(rows)}")
        for column, values in _leaves(rows):
            wrong += [
                f"{task.file.file_path} {column.name}: {each}"
                for each in _wrong_column(task.file, table, column, values)
            ]
    return wrong


def _leaves(rows: pa.Table) -> Iterator[tuple[pa.Field, list[Any]]]:
    """The columns, and the fields of structs."""
    for column, chunks in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_struct(column.type):
            array = chunks.combine_chunks()
            for nested, values in zip(column.type, array.flatten(), strict=True):
                yield nested, values.to_pylist()
        elif not pa.types.is_nested(column.type):
            yield column, chunks.to_pylist()


def _wrong_column(
    file: DataFile, table: Table, column: pa.Field, values: Sequence[Any]
) -> Iterator[str]:
    at = int(column.metadata[b"PARQUET:field_id"])
    there = [each for each in values if each is not None]
    numbers = [each for each in there if each == each]  # noqa: PLR0124 - a NaN is not
    for what, known, right in (
        ("values", file.value_counts, len(values)),
        ("nulls", file.null_value_counts, len(values) - len(there)),
        ("NaN", file.nan_value_counts, len(there) - len(numbers)),
    ):
        if known.get(at, right if what == "NaN" else None) != right:
            yield f"{known.get(at)} {what} instead of {right}"
    there_now = {each.field_id: each for each in table.schema().fields}
    if at not in there_now:  # dropped; and fields of structs have no bounds
        return
    kind: Any = there_now[at].field_type
    low, high = (
        from_bytes(kind, each[at]) if at in each else None
        for each in (file.lower_bounds, file.upper_bounds)
    )
    for value in numbers:
        stored = from_bytes(kind, to_bytes(kind, value))
        if (low is not None and not low <= stored) or (high is not None and not stored <= high):
            yield f"{value!r} is not within {low!r} and {high!r}"
    if low is None and numbers and len(numbers) == len(there):
        yield "it has no lower bound"
