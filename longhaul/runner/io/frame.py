"""What a job hands to `write` and `checkpoint`, whatever library has made it.

And how its rows become CSV and JSON, and how this CSV is read: no value changes on the way. CSV is
that of RFC 4180, as all but Spark read and write it.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from longhaul.core.errors import PermanentJobError
from longhaul.job import Format
from longhaul.outputs.manifest import MAX_TYPED, is_typed
from longhaul.outputs.partitions import PartitionBy
from longhaul.runner.io.written import Folder, TableLayout


@dataclass(frozen=True)
class WriteOptions:
    """How a frame is written to a prefix."""

    format: Format
    partition_by: tuple[str, ...]
    options: Mapping[str, str]

    def to_json(self) -> str:
        return json.dumps([self.format, self.partition_by, dict(self.options)])


AS_THEY_ARE: Final = WriteOptions("parquet", (), {})
"""For a checkpoint: `Frame.stored` gives the same rows back."""


class Frame(Protocol):
    """Rows that are computed, or read, when they are written: once."""

    @property
    def columns(self) -> str:
        """Their names and types, as the JSON of a schema of Spark's."""

    def write(self, folder: Folder, how: WriteOptions) -> int:
        """Write the rows into the folder; returns their exact number."""

    def write_for_table(
        self, folder: Folder, layout: TableLayout, options: Mapping[str, str]
    ) -> tuple[int, frozenset[str]]:
        """Write Parquet files, each of one partition of the table.

        Returns the number of rows, and those of `layout.required` that hold no null.
        """

    def stored(self, folder: Folder, columns: str) -> Any:  # noqa: ANN401 - a frame of the same kind, as the job handles it
        """The rows that a frame with these columns has left in the folder, written `AS_THEY_ARE`.

        It may have left no file.
        """


# What Spark escapes in a folder's name.
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
OF_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def require_columns(partition_by: Iterable[str], columns: Sequence[str]) -> None:
    """Raises PermanentJobError for what parts tables alone: a prefix is parted by columns.

    Also for folders that every reader takes for hidden.
    """
    for text in partition_by:
        if text.startswith("."):
            raise PermanentJobError(
                f"partition_by {text}: readers skip folders whose names begin with a dot: rename"
                " the column"
            )
        if text not in columns and PartitionBy.parse(text).transform != "identity":
            raise PermanentJobError(
                f"partition_by {text}: an output at a prefix is parted by columns: make one of it,"
                " or write to a table"
            )


def partition_of_nulls(columns: Iterable[str]) -> str:
    """The folder of the rows that are null in all these columns, as Spark names it."""
    return "/".join(f"{escaped(name)}={OF_NULL}" for name in columns)


def escaped(text: str) -> str:
    """A name or a value as Spark has it in the name of a folder."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


# All digits that Spark has. Offsets have seconds where a job's own zone had such in the past.
_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXXXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
_CSV: Final = {
    "header": "true",
    "escape": '"',
    # Spark takes spaces, tabs and NULs from the ends of values.
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    **_TIMES,
}

READ_CSV: Final = {
    "header": "true",
    "escape": '"',
    # By default it is NUL, which a quoted value then loses.
    "charToEscapeQuoteEscaping": '"',
    # Quoted values may have line breaks. So one task reads each file, and one large file keeps one
    # core busy; but with half the CPU time of reading by lines. (Measured. A search for line breaks
    # in values takes as long as it saves.)
    "multiLine": "true",
    # By default it is the empty text, and a quoted one is null too. No text has these characters.
    "nullValue": "\uffff\uffff",
    # Spark puts whole lines into a column of this name, and nulls into the others. By default it is
    # `_corrupt_record`, which a file may have.
    "columnNameOfCorruptRecord": "\uffff\uffff",
    # A row with too many or too few values is an error, whichever columns a query takes; and so is
    # a quote within a value that is not doubled.
    "mode": "FAILFAST",
    "columnPruning": "false",
    "unescapedQuoteHandling": "RAISE_ERROR",
}

# A writer's own options that change no text.
_CHANGE_NO_TEXT: Final = {"compression", "codec", "maxrecordsperfile"}


def writing(format_: str, columns: Sequence[str]) -> Mapping[str, str]:
    """Options of Spark's writer for files that have these columns."""
    match format_:
        case "csv" if len(columns) == 1:
            # A null alone would be a blank line, which every reader skips.
            return {**_CSV, "nullValue": '""'}
        case "csv":
            return _CSV
        case "json":
            # Spark leaves nulls out: readers would not see a column without values.
            return {**_TIMES, "ignoreNullFields": "false"}
        case _:
            return {}


def types_lost(columns: str, how: WriteOptions) -> dict[str, str]:
    """The types that files do not tell: of CSV those of all columns, and those of folders.

    CSV that a job wrote in a way of its own has texts: another format of dates would be misread.
    `columns` is Spark's schema as JSON.
    """
    is_ours = how.format == "csv" and {key.lower() for key in how.options} <= _CHANGE_NO_TEXT
    parted = {column.lower() for column in how.partition_by}
    lost = {
        field["name"]: field["type"]
        for field in json.loads(columns)["fields"]
        if (is_ours or field["name"].lower() in parted) and is_typed(field["name"], field["type"])
    }
    return lost if len(lost) <= MAX_TYPED else {}
