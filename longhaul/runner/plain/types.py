"""The types of Arrow, as Spark and tables know them: what one job writes another can read."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from longhaul.domain.errors import PermanentJobError

_MAX_DIGITS: Final = 38
_MAX_TEXT: Final = 2**31 - 1
_OF_UINT64: Final = 20
_NAMES: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
# Each type that Spark's Parquet reader does not know, or reads as another, by one that holds its
# values.
_WIDER: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(_OF_UINT64, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


_INDEX: Final = re.compile(r"__index_level_\d+__")


def own_columns(schema: pa.Schema) -> list[int]:
    """The places of the columns that people have named.

    The index of a frame of pandas that has lost some of its rows comes along without a name.
    """
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return [
        place
        for place, name in enumerate(schema.names)
        if not (name in index and _INDEX.fullmatch(name))
    ]


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The columns in types that hold the same values, and are read everywhere as what they are.

    Every column may be null, and has no metadata.

    Raises:
        PermanentJobError: there is no such type, two columns have one name, or there is none.
    """
    if not schema.names:
        raise PermanentJobError("output: the frame has no columns, which no reader could take")
    seen: dict[str, str] = {}
    for name in schema.names:
        if other := seen.get(name.lower()):
            raise PermanentJobError(
                f"output: columns {other} and {name} have one name, for Spark's readers: rename one"
            )
        seen[name.lower()] = name
    return pa.schema([pa.field(each.name, _plain(each.type, each.name)) for each in schema])


def columns_json(schema: pa.Schema) -> str:
    """A `plain_schema` as the JSON that Spark has for it."""
    return json.dumps(_struct(schema))


def plain_batches(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows with the columns of their `plain_schema`.

    A batch of polars may have texts of more than the 2 GiB that a column has room for then: it
    comes in parts.

    Raises:
        PermanentJobError: a time has nanoseconds.
    """
    rows = batch.num_rows
    try:
        arrays = [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    except PermanentJobError:
        if rows == 1 or batch.nbytes < _MAX_TEXT:
            raise
        for place, count in ((0, rows // 2), (rows // 2, rows - rows // 2)):
            # Taken, not cut out: a cut column still counts its texts from the first of all.
            yield from plain_batches(batch.take(pa.arange(place, place + count)), schema)
        return
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:  # it quotes a value
        raise PermanentJobError(
            f"output: column {field.name}: a {column.type} of it is no {field.type}: times have"
            " microseconds at most, and a text 2 GiB"
        ) from error


def _plain(kind: pa.DataType, path: str) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type, path)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _plain(kind.value_type, path)
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= _MAX_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_struct(kind):
        return pa.struct([pa.field(f.name, _plain(f.type, f"{path}.{f.name}")) for f in kind])
    if types.is_map(kind):
        key, value = _plain(kind.key_type, f"{path}.key"), _plain(kind.item_type, f"{path}.value")
        return pa.map_(key, value)
    if _is_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type, f"{path}.element")))
    if kind not in _NAMES and kind not in _WIDER:
        raise PermanentJobError(
            f"output: column {path}: neither Spark nor a table has a type for Arrow's {kind}: cast"
            " it to another"
        )
    return _WIDER.get(kind, kind)


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _struct(fields: pa.Schema | pa.StructType) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": f.name, "type": _described(f.type), "nullable": True, "metadata": {}}
            for f in fields
        ],
    }


def _described(kind: pa.DataType) -> Any:  # noqa: ANN401 - JSON
    if types.is_struct(kind):
        return _struct(kind)
    if types.is_list(kind):
        return {
            "type": "array",
            "elementType": _described(kind.value_type),
            "containsNull": True,
        }
    if types.is_map(kind):
        return {
            "type": "map",
            "keyType": _described(kind.key_type),
            "valueType": _described(kind.item_type),
            "valueContainsNull": True,
        }
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES[kind]
