"""The folders of an output at a prefix, which is parted by columns as Hive does it."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from longhaul.core.errors import PermanentJobError
from longhaul.core.places import PartitionBy

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
