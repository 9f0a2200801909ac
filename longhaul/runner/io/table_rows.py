"""Staged files of a table as plain Parquet: its columns as they are called now, no deleted rows.

Most files are that already, and stay. Another is written again, batch by batch: if rows of it were
deleted or are not asked for, if columns were added, renamed, widened or dropped since, or if it has
types that Spark reads otherwise.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import expression_to_pyarrow

from longhaul.core.errors import PermanentJobError
from longhaul.runner.io.listing import Source
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.table_inputs import PlannedFile, PlannedTable
from longhaul.runner.io.table_projection import Projection, UnreadableError, spark_columns

_BATCH: Final = 16 * 1024  # rows
# Decoded bytes of a row group: what a rewrite holds in memory.
_GROUP: Final = 64 * 1024 * 1024
_BUFFER: Final = 1024 * 1024


@dataclass(frozen=True)
class StagedFile:
    """A data file on disk, and the files of its row deletes."""

    place: Path
    table: PlannedTable
    planned: PlannedFile
    deletes: Sequence[Path]

    @property
    def size(self) -> int:
        """As downloaded, in bytes."""
        return self.planned.source.size

    @property
    def is_plain(self) -> bool:
        """Whether Spark reads the table's rows from it, and no others.

        Raises:
            PermanentJobError: it has columns that the table cannot have had.
        """
        try:
            has_columns = self._projection.is_plain
        except UnreadableError as error:
            raise PermanentJobError(f"input {self.table.name!r}: {error}") from error
        return has_columns and not self.deletes and isinstance(self.planned.where, AlwaysTrue)

    def rewrite(self, check: Callable[[], None]) -> None:
        """Make it plain, in place; `check` is called for each batch, and may raise."""
        target = self.place.with_suffix(".rewritten")
        columns = spark_columns(self.table.schema)
        with pq.ParquetWriter(target, columns, compression="zstd") as writer:
            for group in _grouped(self._batches(check)):
                writer.write_table(pa.Table.from_batches(group, columns))
        target.replace(self.place)

    def _batches(self, check: Callable[[], None]) -> Iterator[pa.RecordBatch]:
        where = self.planned.where
        wanted = None
        if not isinstance(where, AlwaysTrue):
            # Without the schema, a field of a struct is the column that has the field's name.
            wanted = expression_to_pyarrow(where, self.table.schema)
        deleted, end = self._deleted(), 0
        # Not whole row groups at once: another writer's may be as large as its file.
        with self._open() as file:
            for batch in file.iter_batches(_BATCH, use_threads=False):
                check()
                begin, end = end, end + len(batch)
                there = _without(batch, deleted, begin, end).to_struct_array()
                rows = pa.RecordBatch.from_struct_array(self._projection.rows(there))
                yield rows if wanted is None else rows.filter(wanted)

    def _open(self) -> pq.ParquetFile:
        # INT96 in microseconds, as Spark reads it: nanoseconds wrap outside of 1677 to 2262.
        return pq.ParquetFile(
            self.place, buffer_size=_BUFFER, pre_buffer=False, coerce_int96_timestamp_unit="us"
        )

    def _deleted(self) -> pa.Array:
        """The positions of its deleted rows, ascending."""
        chunks = [
            chunk
            for file in self.deletes
            for chunk in pq.read_table(
                file, columns=["pos"], filters=[("file_path", "=", self.planned.uri)]
            )["pos"].chunks
        ]
        return pa.chunked_array(chunks, pa.int64()).combine_chunks().sort()

    @cached_property
    def _projection(self) -> Projection:
        with self._open() as file:
            schema = file.schema_arrow
        return Projection(
            schema,
            self.table.schema,
            self.table.names.root,
            self.planned.constants,
            self.planned.uri,
        )


class StagedTable:
    """A table as an input: a folder for Spark, whose files are made plain once they are there."""

    def __init__(self, table: PlannedTable, folder: Path, deletes: Path) -> None:
        """`deletes` is a folder for the files of row deletes."""
        self._table = table
        self._folder = folder
        of_deletes = sorted({each for file in table.files for each in file.deletes}, key=str)
        self._deletes = {each: deletes / f"{n:05d}.parquet" for n, each in enumerate(of_deletes)}
        self.files = [
            StagedFile(
                folder / f"{n:05d}.parquet",
                table,
                file,
                [self._deletes[each] for each in file.deletes],
            )
            for n, file in enumerate(table.files)
        ]

    def downloads(self) -> Iterator[tuple[Path, Source]]:
        """Where each file goes."""
        for file in self.files:
            yield file.place, file.planned.source
        for source, place in self._deletes.items():
            yield place, source

    def as_input(self) -> StagedInput:
        """What the job sees. A table without rows has its columns all the same."""
        if not self.files:
            self._folder.mkdir(parents=True)
            empty = spark_columns(self._table.schema).empty_table()
            pq.write_table(empty, self._folder / "00000.parquet")
        places = sorted(self._folder.iterdir())
        return StagedInput(
            path=self._folder.as_uri(),
            files=len(places),
            size_bytes=sum(place.stat().st_size for place in places),
            extensions=frozenset({"parquet"}),
            digest=self._table.digest,
        )


def _without(batch: pa.RecordBatch, deleted: pa.Array, begin: int, end: int) -> pa.RecordBatch:
    """The rows of a batch, which are the file's from `begin`, less those that were deleted."""
    first, last = (bisect_left(deleted, at, key=lambda each: each.as_py()) for at in (begin, end))
    if first == last:
        return batch
    gone = pc.is_in(pa.arange(begin, end), value_set=deleted[first:last])
    return batch.filter(pc.invert(gone))


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if sum(each.nbytes for each in group) >= _GROUP:
            yield group
            group = []
    yield group
