"""The types of Arrow, as Spark and tables know them: what one job writes another can read."""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from longhaul.core.errors import PermanentJobError

_MAX_DIGITS: Final = 38
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
ARROW: Final = {name: kind for kind, name in _NAMES.items()}
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


def require_index(schema: pa.Schema) -> None:
    """Raises PermanentJobError if an index of pandas has a name, and does not come along as it.

    Arrow keeps an index that only counts as three numbers, and gives one with the name of a column
    another name.
    """
    known = schema.pandas_metadata or {}
    names = {each["field_name"]: each["name"] for each in known.get("columns", ())}
    for each in known.get("index_columns", ()):
        is_range = isinstance(each, dict)
        name = each["name"] if is_range else names.get(each)
        if name is not None and (is_range or name != each):
            raise PermanentJobError(
                f"output: the index {name} of the frame would be lost, because"
                f" {'it only counts' if is_range else 'a column has its name'}: make a column of it"
                " (reset_index), or take its name away"
            )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The columns in types that hold the same values, and are read everywhere as what they are.

    Every column may be null, and has no metadata.

    Raises:
        PermanentJobError: there is no such type, two columns have one name, or there is none.
    """
    if not schema.names:
        raise PermanentJobError("output: the frame has no columns, which no reader could take")
    _require_names(schema.names, "")
    return pa.schema([pa.field(each.name, _plain(each.type, each.name)) for each in schema])


def columns_json(schema: pa.Schema) -> str:
    """A `plain_schema` as the JSON that Spark has for it."""
    return json.dumps(_struct(schema))


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the columns of their `plain_schema`.

    Raises:
        PermanentJobError: a time has nanoseconds, or Arrow has no way from one type to the other.
    """
    arrays = [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        # In two steps: Arrow cannot look up values in a dictionary of views, which polars has.
        return column.cast(_plain(column.type, field.name, keeps_codes=True)).cast(field.type)
    except pa.ArrowInvalid as error:  # it quotes a value
        raise PermanentJobError(
            f"output: column {field.name}: a {column.type} of it is no {field.type}: times have"
            " microseconds at most, and the texts of one batch 2 GiB: hand over smaller ones"
        ) from error
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise PermanentJobError(
            f"output: column {field.name}: Arrow makes no {field.type} of a {column.type}: cast it"
            " to another type"
        ) from error


def _require_names(names: Iterable[str], above: str) -> None:
    """Raises PermanentJobError if two names differ in case alone, or not at all."""
    seen: dict[str, str] = {}
    for name in names:
        if other := seen.get(name.lower()):
            raise PermanentJobError(
                f"output: columns {above}{other} and {above}{name} have one name, for Spark's"
                " readers: rename one"
            )
        seen[name.lower()] = name


def _plain(kind: pa.DataType, path: str, *, keeps_codes: bool = False) -> pa.DataType:
    """The type of the values. `keeps_codes`: a dictionary stays one, of values that are plain."""
    if isinstance(kind, pa.BaseExtensionType):
        return _of_extension(kind, path, keeps_codes=keeps_codes)
    if types.is_dictionary(kind):
        values = _plain(kind.value_type, path)
        return pa.dictionary(kind.index_type, values) if keeps_codes else values
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= _MAX_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if (nested := _nested(kind, path, keeps_codes=keeps_codes)) is not None:
        return nested
    if kind not in _NAMES and kind not in _WIDER:
        raise _no_type(f"Arrow's {kind}: cast it to another", path)
    return _WIDER.get(kind, kind)


def _nested(kind: pa.DataType, path: str, *, keeps_codes: bool) -> pa.DataType | None:
    """Of a type that has others in it, else None.

    Views of lists are refused like an unknown type: Arrow makes lists of them whose
    offsets are wrong.
    """

    def inner(kind: pa.DataType, name: str) -> pa.DataType:
        return _plain(kind, f"{path}.{name}", keeps_codes=keeps_codes)

    if types.is_struct(kind):
        if not kind.num_fields:
            raise PermanentJobError(
                f"output: column {path} is a struct without fields: leave it out"
            )
        _require_names((each.name for each in kind), f"{path}.")
        return pa.struct([pa.field(each.name, inner(each.type, each.name)) for each in kind])
    if types.is_map(kind):
        return pa.map_(inner(kind.key_type, "key"), inner(kind.item_type, "value"))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", inner(kind.value_type, "element")))
    return None


def _of_extension(kind: pa.BaseExtensionType, path: str, *, keeps_codes: bool) -> pa.DataType:
    """As the values are stored, but for those that would become bare numbers."""
    if kind.extension_name == "pandas.period":
        raise _no_type("periods: make times of them (to_timestamp)", path)
    if kind.extension_name == "arrow.bool8":
        return pa.bool_()
    return _plain(kind.storage_type, path, keeps_codes=keeps_codes)


def _no_type(what: str, path: str) -> PermanentJobError:
    return PermanentJobError(
        f"output: column {path}: neither Spark nor a table has a type for {what}"
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
