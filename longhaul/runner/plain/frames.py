"""Frames of every library that gives Arrow's streams: pyarrow, pandas, polars, DuckDB.

They have one mechanism for it, the PyCapsule interface:
https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from longhaul.core.errors import PermanentJobError
from longhaul.outputs.partitions import PartitionBy
from longhaul.runner.io.frame import (
    OF_NULL,
    WriteOptions,
    escaped,
    partition_of_nulls,
    require_columns,
)
from longhaul.runner.io.written import Folder, TableLayout
from longhaul.runner.plain.files import RowFiles, read_parquet, require_years, texts
from longhaul.runner.plain.types import (
    columns_json,
    own_columns,
    plain_batch,
    plain_schema,
    require_index,
)


class ArrowFrame:
    """`longhaul.runner.io.frame.Frame`. A batch at a time is in memory."""

    def __init__(self, data: object) -> None:
        """`data` has `__arrow_c_stream__`. Nothing of it is read yet.

        Raises:
            PermanentJobError: a column has a type that others could not read.
        """
        # A reader itself as it is: through its stream an error of its generator loses its class.
        self._reader = data if isinstance(data, pa.RecordBatchReader) else _stream_of(data)
        whole = self._reader.schema
        self._own = own_columns(whole)
        self._schema = plain_schema(pa.schema([whole.field(place) for place in self._own]))
        self.columns = columns_json(self._schema)

    def write(self, folder: Folder, how: WriteOptions) -> int:
        names, partition_by = self._schema.names, how.partition_by
        require_columns(partition_by, names)
        self._require_parted(partition_by)
        in_files = [name for name in names if name not in partition_by]
        schema = pa.schema([self._schema.field(name) for name in in_files])

        def place(values: Sequence[str | None]) -> str:
            pairs = zip(partition_by, values, strict=True)
            return "/".join(
                f"{escaped(name)}={escaped(value) if value else OF_NULL}" for name, value in pairs
            )

        with _emptied_on_error(_on_disk(folder)) as local:
            return self._write_to(
                RowFiles(local, schema, how.format, how.options),
                in_files,
                lambda rows: [_folder_texts(rows.column(name), name) for name in partition_by],
                place,
                partition_of_nulls(partition_by),
            )

    def write_for_table(
        self, folder: Folder, layout: TableLayout, options: Mapping[str, str]
    ) -> tuple[int, frozenset[str]]:
        nulls = {name: 0 for name in layout.required if name in self._schema.names}

        def keys(rows: pa.RecordBatch) -> list[pa.Array]:
            for name in nulls:
                nulls[name] += rows.column(name).null_count
            return [_partition(by, rows.column(by.column)) for by in layout.partition_by]

        with _emptied_on_error(_on_disk(folder)) as local:
            files = RowFiles(local, self._schema, "parquet", options)
            count = self._write_to(files, self._schema.names, keys, lambda _: "", None)
        return count, frozenset(name for name, count in nulls.items() if count == 0)

    def _write_to(
        self,
        files: RowFiles,
        names: Sequence[str],
        keys: Callable[[pa.RecordBatch], Sequence[pa.Array]],
        place: Callable[[Sequence[str | None]], str],
        place_of_none: str | None,
    ) -> int:
        """Write these columns of all rows: those of equal `keys` to one file, in a folder."""
        count = 0
        for batch in self._batches():
            count += batch.num_rows
            for values, some in _grouped(batch.select(names), keys(batch)):
                files.add(tuple(values), place(values), some)
        files.finish_files(place_of_none)
        return count

    def stored(self, folder: Folder, _columns: str) -> pa.Table:
        # A file without rows has the columns, too.
        return pa.concat_tables(read_parquet(_on_disk(folder)))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            if batch.num_rows:
                yield plain_batch(batch.select(self._own), self._schema)

    def _require_parted(self, partition_by: Sequence[str]) -> None:
        for name in partition_by:
            if name not in self._schema.names:
                raise PermanentJobError(f"partition_by {name}: the frame has no such column")
            kind = self._schema.field(name).type
            if types.is_nested(kind) or types.is_binary(kind):
                raise PermanentJobError(f"partition_by {name}: a {kind} names no folder")
        if partition_by and len(set(partition_by)) == len(self._schema):
            raise PermanentJobError("partition_by: no column would be left for the files")


def _stream_of(data: object) -> pa.RecordBatchReader:
    """The batches of a library's frame.

    Raises:
        PermanentJobError: its columns are none of Arrow's.
    """
    kind, dtypes = type(data).__name__, getattr(data, "dtypes", None)
    if isinstance(dtypes, list) and "Object" in map(str, dtypes):
        raise PermanentJobError(  # polars hands over their addresses
            f"output: the {kind} has a column of Python's objects: cast it to another type"
        )
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except (ValueError, TypeError, NotImplementedError) as error:  # also Arrow's own
        # Of several texts the last has the column, and the first a value.
        raise PermanentJobError(
            f"output: the {kind} is no table for Arrow: {error.args[-1] if error.args else error}"
        ) from error
    if not isinstance(data, pa.Table):  # one that was read from a file knows the index of another
        require_index(reader.schema)
    return reader


def _on_disk(folder: Folder) -> Path:
    if not isinstance(folder, Path):
        raise PermanentJobError(
            "a frame without Spark is written by one machine, and this job runs on a cluster: send"
            " it to another engine than emr-serverless"
        )
    return folder


@contextmanager
def _emptied_on_error(folder: Path) -> Iterator[Path]:
    """Leave no half of a dataset: a job may catch the error, and write it again."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _grouped(
    batch: pa.RecordBatch, keys: Sequence[pa.Array]
) -> Iterator[tuple[Sequence[str | None], pa.RecordBatch]]:
    """The rows of each combination of values, in their order."""
    if not keys:
        yield (), batch
        return
    names = [f"key{n}" for n in range(len(keys))]
    numbered = pa.table([*keys, pa.arange(0, batch.num_rows, 1)], names=[*names, "row"])
    groups = numbered.group_by(names, use_threads=False).aggregate([("row", "list")])
    for group in groups.to_batches():
        for n in range(group.num_rows):
            values = [group.column(name)[n].as_py() for name in names]
            yield values, batch.take(group.column("row_list")[n].values)


def _folder_texts(column: pa.Array, name: str) -> pa.Array:
    """The values as Spark names folders by them."""
    require_years(column, name)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise PermanentJobError(
            f"partition_by {name}: a text that is no UTF-8 names no folder"
        ) from error
    if types.is_timestamp(column.type):
        text = pc.strftime(column.cast(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S")
        return pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")  # it has six digits of a second
    return texts(column)


def _partition(by: PartitionBy, column: pa.Array) -> pa.Array:
    """The values of a partition: rows with equal ones may share a file."""
    if by.transform == "identity":
        return column
    if types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))  # in UTC, whose days and hours are Iceberg's
    floor: Callable[..., pa.Array] = pc.floor_temporal
    return floor(column, unit=by.transform)
