"""How a table is partitioned, as a job says it. Pure."""

import re
from typing import Final, Literal

from longhaul.core.settings import Model

Transform = Literal["identity", "year", "month", "day", "hour"]

_PART_OF_TIME: Final = re.compile(r"(year|month|day|hour)\(([^()]+)\)")


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
