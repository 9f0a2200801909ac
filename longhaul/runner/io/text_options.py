"""How rows become CSV and JSON, and how this CSV is read: no value changes on the way.

CSV is that of RFC 4180, as all but Spark read and write it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from longhaul.outputs.manifest import MAX_TYPED, is_typed
from longhaul.runner.io.frame import WriteOptions

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
