"""What a job hands to `write` and `checkpoint`, whatever library has made it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from longhaul.job import Format
from longhaul.runner.io.written import Folder, TableLayout


@dataclass(frozen=True)
class WriteOptions:
    """How a frame is written to a prefix."""

    format: Format
    partition_by: tuple[str, ...]
    options: Mapping[str, str]

    def to_json(self) -> str:
        return json.dumps([self.format, self.partition_by, dict(self.options)])


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

    def checkpoint(self, folder: Folder) -> int:
        """Write the rows so that `stored` gives them back; returns their number."""

    def stored(self, folder: Folder, columns: str, *, is_empty: bool) -> Any:  # noqa: ANN401 - a frame of the same kind, as the job handles it
        """The rows that a `checkpoint` of a frame with these columns has left in the folder.

        `is_empty`: it has left no file.
        """
