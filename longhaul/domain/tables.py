"""Tables: `table://DATABASE/NAME`, an Iceberg table in the Glue catalog. Pure.

What a publisher needs to add an attempt's files to a table is in its pending list: it reads no file
of the output. Field ids are in the files already, as the table had, or would get them, when the
job had ended.
"""

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from longhaul.domain.paths import TABLES_PREFIX, DataPath, has_controls
from longhaul.settings import TABLE_NAME, Mode, Model, PathPolicy

SCHEME: Final = "table://"

MAX_STATISTICS: Final = 200_000
"""Columns of all files of an output at most: a function of 1 GB holds their statistics."""

OF_DATASET: Final = "__"
"""Between the name of an output's table and that of a dataset's, beside it."""

NAME: Final = re.compile(TABLE_NAME)
_SNAPSHOT: Final = re.compile(r"[0-9]{1,19}")
_PART_OF_TIME: Final = re.compile(r"(year|month|day|hour)\(([^()]+)\)")

Transform = Literal["identity", "year", "month", "day", "hour"]


@dataclass(frozen=True)
class TablePath:
    """A table, by the names of its Glue database and its own."""

    database: str
    name: str

    @classmethod
    def of(cls, text: str) -> "TablePath":
        """The table in a text that was checked before."""
        database, _, name = text.removeprefix(SCHEME).partition("/")
        return cls(database, name)

    def __str__(self) -> str:
        return f"{SCHEME}{self.database}/{self.name}"

    def location(self, bucket: str) -> str:
        """Where its files are in the data bucket."""
        return f"s3://{bucket}/{TABLES_PREFIX}{self.database}/{self.name}"

    def is_in(self, output: "TablePath") -> bool:
        """Whether it is that output's own table, or one of its datasets'."""
        is_dataset = self.name.startswith(f"{output.name}{OF_DATASET}")
        return self == output or (is_dataset and self.database == output.database)

    def of_dataset(self, dataset: str) -> "TablePath":
        """The table of a named dataset, beside the one of the output itself."""
        name = dataset.lower().replace("-", "_")
        return TablePath(self.database, f"{self.name}{OF_DATASET}{name}")


@dataclass(frozen=True)
class TableInput:
    """A table to read: `table://DATABASE/NAME`, then `@SNAPSHOT` and `?FILTER` if they are wanted.

    Without a snapshot it is read as it is when an attempt begins.
    """

    table: TablePath
    snapshot: int | None = None
    where: str = ""

    @classmethod
    def of(cls, text: str) -> "TableInput":
        """The table in a text that was checked before."""
        head, _, where = text.partition("?")
        name, _, snapshot = head.partition("@")
        return cls(TablePath.of(name), int(snapshot) if snapshot else None, where)

    def __str__(self) -> str:
        at = "" if self.snapshot is None else f"@{self.snapshot}"
        return f"{self.table}{at}{self.where and '?'}{self.where}"


InputPath = DataPath | TableInput


def input_of(text: str) -> InputPath:
    """The input in a text that was checked before."""
    return TableInput.of(text) if is_table(text) else DataPath.of(text)


def data_folder(token: str) -> str:
    """Below a table's location: where the files of one attempt are."""
    return f"data/{token}/"


def is_table(text: str) -> bool:
    return text.startswith(SCHEME)


def place_of(output: str, bucket: str) -> str:
    """Where the files of an output are: its prefix, or its table's location in the data bucket."""
    return f"{TablePath.of(output).location(bucket)}/" if is_table(output) else output


def parse_table(text: str, policy: PathPolicy) -> TablePath:
    """The table that a request names.

    Raises:
        ValueError: malformed, or in a database that is not allowed; the message says which.
    """
    database, _, name = text.removeprefix(SCHEME).partition("/")
    if not policy.table_databases:
        raise ValueError("this stack has no tables: the setting tables gives it a database")
    if database not in policy.table_databases:
        raise ValueError(
            f"this database is not allowed; allowed: {', '.join(policy.table_databases)}"
        )
    if not NAME.fullmatch(name):
        raise ValueError("a table is table://DATABASE/NAME; a NAME has a-z 0-9 _, at most 180")
    return TablePath(database, name)


def parse_table_input(text: str, policy: PathPolicy) -> TableInput:
    """The table that a request reads.

    Raises:
        ValueError: as `parse_table`; also for a snapshot that is no number, and an empty filter.
    """
    head, filtered, where = text.partition("?")
    name, pinned, snapshot = head.partition("@")
    parse_table(name, policy)
    if pinned and not _SNAPSHOT.fullmatch(snapshot):
        raise ValueError("a snapshot is a number: table://DATABASE/NAME@SNAPSHOT")
    if filtered and not where.strip():
        raise ValueError("there is no filter after the ?: table://DATABASE/NAME?day = '2026-01-31'")
    if has_controls(where):
        raise ValueError("has control characters")
    return TableInput.of(text)


class PartitionBy(Model):
    """A column by which a table is partitioned, and how its value follows from the column's."""

    column: str
    transform: Transform = "identity"

    @classmethod
    def parse(cls, text: str) -> "PartitionBy":
        """Of `region`, or `day(at)`: year, month, day or hour of a column."""
        match = _PART_OF_TIME.fullmatch(text)
        if match is None:
            return cls(column=text)
        return cls.model_validate({"transform": match[1], "column": match[2]})

    def __str__(self) -> str:
        return self.column if self.transform == "identity" else f"{self.transform}({self.column})"


def column_of(partition_by: str) -> str:
    """The column in `region` or `day(at)`."""
    return PartitionBy.parse(partition_by).column


# Iceberg's single-value binary form of a bound or a partition's value, as in a manifest.
Binary = Annotated[
    bytes,
    PlainValidator(lambda value: b64decode(value) if isinstance(value, str) else value),
    PlainSerializer(lambda value: b64encode(value).decode(), when_used="json"),
]


class ColumnStatistics(Model):
    size: int = 0
    values: int | None = None
    nulls: int | None = None
    nans: int | None = None
    lower: Binary | None = None
    upper: Binary | None = None


class TableFile(Model):
    """A data file, of one partition. `path` is below the table's location."""

    path: str
    size: int
    rows: int
    partition: tuple[Binary | None, ...] = ()  # in the order of `partition_by`
    columns: dict[int, ColumnStatistics]  # by field id
    split_offsets: tuple[int, ...] = ()


class PendingTable(Model):
    """What one table gets from an attempt."""

    database: str
    name: str
    location: str
    mode: Mode
    columns: str  # Iceberg's JSON of the written columns, with the field ids of the files
    partition_by: tuple[PartitionBy, ...] = ()
    # What an overwrite replaces: the rows of this snapshot, and the latest whole overwrite of ours
    # at that time.
    replaces_snapshot: int | None = None
    replaces_base: str | None = None
    # Whether an earlier run of the job may have added rows, which an append replaces.
    again: bool = False
    files: Annotated[tuple[TableFile, ...], Field(fail_fast=True)] = ()

    @property
    def path(self) -> TablePath:
        return TablePath(self.database, self.name)
