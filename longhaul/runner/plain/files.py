"""Files of rows in the formats that `job.write` has, with the values that Spark's writers give."""

import base64
import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import types

from longhaul.core.errors import PermanentJobError

_MIB: Final = 1024 * 1024
# Of all files that are open: a row group for each small batch would make files that read slowly.
_MAX_BUFFERED: Final = 128 * _MIB
# What a column of a batch takes beside its values: many partitions make batches of a few rows.
_OF_COLUMN: Final = 1024
# Well below the 1,024 that a process may have open.
_MAX_OPEN: Final = 256
_PARQUET: Final = {
    "none": "none",
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4",
    "brotli": "brotli",
}
_TEXT: Final = {"none": "", "uncompressed": "", "gzip": ".gz"}
# From 1970 to the year 1, and to the year 10,000.
_DAYS: Final = (-719_162, 2_932_897)
_DAY_US: Final = 86_400_000_000
# What Arrow raises for a value that Python does not have.
_NO_VALUES: Final = (LookupError, TypeError, ValueError, OverflowError)
_WORDS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class RowFiles:
    """Files below a folder: for each key one that is open."""

    def __init__(
        self, folder: Path, schema: pa.Schema, format_: str, options: Mapping[str, str]
    ) -> None:
        """`schema` is that of the files.

        Raises:
            PermanentJobError: the format, an option, or a column's type is none that it can write.
        """
        self._folder = folder
        self._schema = schema
        self._extension, self._open_file = _format(format_, options)
        if format_ == "csv":
            _require_flat(schema)
        self._id = uuid4()
        self._count = 0
        self._open: dict[Hashable, RowWriter] = {}
        self._waiting: dict[Hashable, tuple[str, list[pa.RecordBatch]]] = {}
        self._waiting_bytes = 0

    def add(self, key: Hashable, place: str, batch: pa.RecordBatch) -> None:
        """Write rows to the file of the key, in the folder `place`."""
        self._waiting.setdefault(key, (place, []))[1].append(batch)
        self._waiting_bytes += batch.nbytes + _OF_COLUMN * batch.num_columns
        if self._waiting_bytes > _MAX_BUFFERED:
            self._flush()

    def finish_files(self, place_of_none: str | None) -> None:
        """Finish all files.

        Args:
            place_of_none: where to put a file without rows if there is none: readers find the
                columns in it. None: nowhere.
        """
        if not self._count and not self._waiting and place_of_none is not None:
            self.add(None, place_of_none, pa.RecordBatch.from_pylist([], self._schema))
        self._flush()
        for each in self._open.values():
            each.close()
        self._open.clear()

    def _flush(self) -> None:
        """Write what waits: a file is begun no sooner, else each small batch might begin one."""
        for key, (place, batches) in self._waiting.items():
            if key not in self._open:
                if len(self._open) >= _MAX_OPEN:
                    self._open.pop(next(iter(self._open))).close()
                self._open[key] = self._begin(place)
            whole = pa.Table.from_batches(batches).combine_chunks()
            for batch in whole.to_batches() or batches[:1]:
                self._open[key].write(batch)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _begin(self, place: str) -> "RowWriter":
        folder = self._folder / place
        folder.mkdir(parents=True, exist_ok=True)
        # As Spark names its files. Those of two appends differ in their UUID.
        name = f"part-{self._count:05d}-{self._id}{self._extension}"
        self._count += 1
        return self._open_file(folder / name, self._schema)


def _format(
    format_: str, options: Mapping[str, str]
) -> "tuple[str, Callable[[Path, pa.Schema], RowWriter]]":
    """The extension of the files, and what opens one."""
    if others := sorted(options.keys() - {"compression"}):
        raise PermanentJobError(
            f"options: {others[0]} is one of Spark's; a frame without Spark takes compression alone"
        )
    known = {"parquet": _PARQUET, "csv": _TEXT, "json": _TEXT}.get(format_)
    if known is None:
        raise PermanentJobError(
            f"format: a frame without Spark becomes parquet, csv or json, and not {format_}"
        )
    asked = options.get("compression", "snappy" if format_ == "parquet" else "none").lower()
    if asked not in known:
        raise PermanentJobError(
            f"options: compression {asked!r} of {format_} is not one of {', '.join(known)}"
        )
    if format_ == "parquet":
        # Without Arrow's own copy of the schema: the file's is what every reader goes by.
        write = partial(pq.ParquetWriter, compression=known[asked], store_schema=False)
        return f".{asked}.parquet", write
    is_zipped = bool(known[asked])
    kind: Callable[[pa.NativeFile, pa.Schema], RowWriter]
    kind = _CsvFile if format_ == "csv" else _JsonFile
    return f".{format_}{known[asked]}", lambda file, schema: kind(
        pa.output_stream(str(file), compression="gzip" if is_zipped else None), schema
    )


class _CsvFile:
    """As RFC 4180 has it: null is empty, and the empty text `""`."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema) -> None:
        self._sink = sink
        self._is_single = len(schema) == 1
        fields = [pa.field(each.name, self._type(each.type)) for each in schema]
        self._schema = pa.schema(fields)
        self._writer = pyarrow.csv.CSVWriter(sink, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        for each, name in zip(batch.columns, batch.schema.names, strict=True):
            require_years(each, name)
        columns = [
            each if each.type == field.type else texts(each)
            for each, field in zip(batch.columns, self._schema, strict=True)
        ]
        if self._is_single:  # a null alone would be a blank line, which every reader skips
            columns = [columns[0].fill_null("")]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        with self._sink, self._writer:  # which closes them
            pass

    def _type(self, kind: pa.DataType) -> pa.DataType:
        is_text = self._is_single or types.is_timestamp(kind) or types.is_floating(kind)
        return pa.string() if is_text else kind


class _JsonFile:
    """An object on each line, also with its nulls: else a column without values is not seen."""

    def __init__(self, sink: pa.NativeFile, _schema: pa.Schema) -> None:
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        names = batch.schema.names
        columns = [_values(*each) for each in zip(batch.columns, names, strict=True)]
        for row in zip(*columns, strict=True):
            self._sink.write(f"{_json(dict(zip(names, row, strict=True)))}\n".encode())

    def close(self) -> None:
        with self._sink:
            pass


class RowWriter(Protocol):
    """One open file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def close(self) -> None:
        """Finish the file."""


def _values(column: pa.Array, name: str) -> list[Any]:
    """Those of Python.

    Raises:
        PermanentJobError: it has none for one of them.
    """
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except _NO_VALUES as error:
        raise PermanentJobError(
            f"output: column {name}: JSON cannot hold one of its values: a map with the same key"
            " twice or with a key of several values, a year before 1 or after 9999, or a text that"
            " is no UTF-8: take parquet"
        ) from error
    return values


def _json(value: Any) -> str:  # noqa: ANN401 - a table of types
    match value:
        case dict():
            pairs = (f"{_json(_text(key))}:{_json(each)}" for key, each in value.items())
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(map(_json, value))}]"
        case float() if not isfinite(value):
            return f'"{_WORDS[str(value)]}"'
        case Decimal():
            return format(value, "f")
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case date():
            return f'"{_text(value)}"'
    return json.dumps(value, ensure_ascii=False)


def _text(value: object) -> str:
    """Of a time, or of the key of a map."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if value.tzinfo else text
    return value.isoformat() if isinstance(value, date) else str(value)


def texts(column: pa.Array) -> pa.Array:
    """Values of a column that is not nested as texts, as Spark writes them."""
    kind = column.type
    if types.is_timestamp(kind):
        text = pc.strftime(column.cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%S")
        return pc.binary_join_element_wise(text, "Z" if kind.tz else "", "")
    text = column.cast(pa.string())
    if types.is_floating(kind):
        for mine, sparks in _WORDS.items():
            text = pc.if_else(pc.equal(text, mine), sparks, text)
        # Else a reader would take a column of whole numbers for integers.
        text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    return text


def require_years(column: pa.Array, name: str) -> None:
    """Raises PermanentJobError for times that have no text which readers know."""
    kind = column.type
    if not (types.is_date(kind) or types.is_timestamp(kind)):
        return
    is_date = types.is_date(kind)
    low, high = _DAYS if is_date else [each * _DAY_US for each in _DAYS]
    ends = pc.min_max(column.cast(pa.int32() if is_date else pa.int64())).as_py()
    if ends["min"] is not None and not low <= ends["min"] <= ends["max"] < high:
        raise PermanentJobError(
            f"output: column {name} has a year before 1 or after 9999, which has no text: take"
            " parquet"
        )


def _require_flat(schema: pa.Schema) -> None:
    for field in schema:
        if types.is_nested(field.type) or types.is_binary(field.type):
            raise PermanentJobError(
                f"output: column {field.name}: CSV holds no {field.type}: take parquet or json"
            )


def read_parquet(folder: Path) -> Iterator[pa.Table]:
    """The rows of each file in the folder, in the order of their names."""
    for file in sorted(folder.rglob("*.parquet")):
        with pq.ParquetFile(file) as opened:
            yield opened.read()
