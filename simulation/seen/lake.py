"""The tables of a world as a reader sees them.

A row stands for all rows of one file as its attempt wrote it; its name is that file's key. Whatever
rewrites files says which rows the new ones hold.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from simulation.seen.sightings import Token

if TYPE_CHECKING:
    from datetime import datetime

    from simulation.seen.record import Seen

Rows = Counter[str]


class TableChange(NamedTuple):
    """A commit to a table. `output` is its name in requests; `by_others`: not by Longhaul."""

    output: str
    before: Rows
    after: Rows
    by_others: bool

    @property
    def added(self) -> Rows:
        return self.after - self.before

    @property
    def removed(self) -> Rows:
        return self.before - self.after


class Lake:
    def __init__(self, seen: "Seen") -> None:
        self._seen = seen
        self.rows: dict[str, Rows] = {}  # by output
        self.files: dict[str, frozenset[str]] = {}  # keys of the data files, by output
        # When an attempt's uploads were listed the last time before they were whole.
        self.listed_at: dict[Token, datetime] = {}
        self.came_at: dict[str, datetime] = {}  # by row
        self.changed_by_others: dict[str, datetime] = {}  # the last time, by output
        self.is_written_by_others = False
        self.others_files: dict[str, Rows] = {}  # the rows of what others wrote, by key

    @contextmanager
    def others_write(self) -> Iterator[None]:
        """What changes meanwhile is not Longhaul's doing."""
        self.is_written_by_others = True
        try:
            yield
        finally:
            self.is_written_by_others = False

    def table_changed(self, database: str, name: str) -> None:
        # Imported by worlds that need it alone: pyiceberg takes a while.
        from simulation.seen.table_files import live_files  # noqa: PLC0415

        seen, output = self._seen, f"table://{database}/{name}"
        pointer = seen.world.aws.glue.tables[database, name]["Parameters"]["metadata_location"]
        files = live_files(seen.objects(), pointer)
        after: Rows = sum((self.rows_in(file) for file in files), Counter())
        change = TableChange(
            output, self.rows.get(output, Counter()), after, self.is_written_by_others
        )
        self.files[output] = frozenset(files)
        if self.is_written_by_others:
            self.changed_by_others[output] = seen.now
        seen.check("table changed", change)
        self.rows[output] = after
        for row in change.added:
            self.came_at[row] = seen.now
        for token in tokens_of(seen, change.added):
            seen.note_switched(token, output)

    def rows_in(self, file: str) -> Rows:
        return self.others_files.get(file, Counter((file,)))


def tokens_of(seen: "Seen", rows: Rows) -> list[Token]:
    return sorted({token for row in rows if (token := seen.token_in(row)) is not None})
