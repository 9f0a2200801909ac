"""The columns of one data file as those that its table has now.

By Iceberg's field ids, or in files without any by the names that the table's metadata maps. Not by
pyiceberg's own reader: it makes empty lists of null ones if they hold structs.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

_FIELD_ID: Final = b"PARQUET:field_id"

_PLAIN: Final[dict[type[IcebergType], pa.DataType]] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    UUIDType: pa.string(),  # as Iceberg's own reader for Spark
    BinaryType: pa.binary(),
    FixedType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
}
_SHORT: Final = (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())


class UnreadableError(Exception):
    """A table's rows cannot be read right; the text says why, for people."""


def spark_columns(schema: Schema) -> pa.Schema:
    """A table's columns as Spark reads them.

    Raises:
        UnreadableError: Spark has no type for one of them.
    """
    return pa.schema(_fields(schema.as_struct(), ""))


@dataclass(frozen=True)
class Projection:
    """`constants` has the values of columns that the file may lack, by field id."""

    source: pa.Schema
    schema: Schema
    names: Sequence[MappedField]
    constants: Mapping[int, Any]
    file: str  # for people

    @cached_property
    def is_plain(self) -> bool:
        """Whether the file has the table's columns as they are.

        Raises:
            UnreadableError: it has none that the table could have had.
        """
        there = pa.struct(list(self.source))
        struct = self.schema.as_struct()
        self.rows(pa.nulls(0, there))
        return self._is_same(there, struct, self.names)

    def rows(self, rows: pa.StructArray) -> pa.StructArray:
        """The same rows with the table's columns."""
        struct = self.schema.as_struct()
        there = rows.type
        at = self._places(there, struct, self.names)
        if not self._has_ids and self.source.names and all(place is None for place in at):
            raise UnreadableError(
                f"{self.file} has no field ids, and the table no schema.name-mapping.default with"
                " its columns: set that property, or rewrite the table (rewrite_data_files)"
            )
        children = self._children(rows, struct, self.names, "", self.constants)
        return pa.StructArray.from_arrays(children, fields=_fields(struct, ""))

    def _children(
        self,
        rows: pa.StructArray,
        wanted: StructType,
        names: Sequence[MappedField],
        above: str,
        constants: Mapping[int, Any],
    ) -> list[pa.Array]:
        """The fields of a struct; of one that the file lacks its constant, or nulls."""
        return [
            _repeated(constants.get(field.field_id), kind.type, len(rows))
            if place is None
            else self._array(
                rows.field(place),
                field.field_type,
                _mapped(names, field.field_id),
                f"{above}{field.name}",
            )
            for field, kind, place in zip(
                wanted.fields,
                _fields(wanted, above),
                self._places(rows.type, wanted, names),
                strict=True,
            )
        ]

    def _array(
        self, array: pa.Array, wanted: IcebergType, names: Sequence[MappedField], path: str
    ) -> pa.Array:
        there = array.type
        target = _type(wanted, path)
        match wanted:
            case StructType() if pa.types.is_struct(there):
                children = self._children(array, wanted, names, f"{path}.", {})
                kinds = _fields(wanted, f"{path}.")
                return pa.StructArray.from_arrays(children, fields=kinds, mask=array.is_null())
            case ListType() if _is_list(there):
                if not pa.types.is_list(there):  # as pyarrow's own writers remember
                    array = array.cast(pa.list_(there.value_field))
                values = self._array(
                    array.values,
                    wanted.element_type,
                    _mapped(names, wanted.element_id),
                    f"{path}.element",
                )
                return _nested(target, array, values)
            case MapType() if pa.types.is_map(there):
                keys = self._array(
                    array.keys, wanted.key_type, _mapped(names, wanted.key_id), f"{path}.key"
                )
                items = self._array(
                    array.items, wanted.value_type, _mapped(names, wanted.value_id), f"{path}.value"
                )
                entries = pa.StructArray.from_arrays(
                    [keys, items], fields=[target.key_field, target.item_field]
                )
                return _nested(target, array, entries)
        return self._leaf(array, wanted, target, path)

    def _leaf(
        self, array: pa.Array, wanted: IcebergType, target: pa.DataType, path: str
    ) -> pa.Array:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        there = array.type
        if isinstance(wanted, UUIDType) and pa.types.is_fixed_size_binary(there):
            texts = [each and str(uuid.UUID(bytes=each)) for each in array.to_pylist()]
            return pa.array(texts, target)
        if not _is_read_as(there, target):
            raise UnreadableError(
                f"column {path} is {wanted} in the table, and {there} in {self.file}: rewrite the"
                " table (rewrite_data_files)"
            )
        # INT96 has nanoseconds, which Spark cuts too.
        return array.cast(target, safe=not pa.types.is_timestamp(there))

    def _is_same(
        self, there: pa.DataType, wanted: IcebergType, names: Sequence[MappedField]
    ) -> bool:
        match wanted:
            case StructType():
                return (
                    pa.types.is_struct(there)
                    and [field.name for field in there] == [field.name for field in wanted.fields]
                    and self._places(there, wanted, names) == list(range(len(wanted.fields)))
                    and all(
                        self._is_same(ours.type, field.field_type, _mapped(names, field.field_id))
                        for ours, field in zip(there, wanted.fields, strict=True)
                    )
                )
            case ListType():
                return _is_list(there) and self._is_same(
                    there.value_type, wanted.element_type, _mapped(names, wanted.element_id)
                )
            case MapType():
                return (
                    pa.types.is_map(there)
                    and self._is_same(
                        there.key_type, wanted.key_type, _mapped(names, wanted.key_id)
                    )
                    and self._is_same(
                        there.item_type, wanted.value_type, _mapped(names, wanted.value_id)
                    )
                )
        alike = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
        return bool(alike.get(there, there) == _type(wanted, ""))

    @cached_property
    def _has_ids(self) -> bool:
        return any(_FIELD_ID in (field.metadata or {}) for field in self.source)

    def _places(
        self, there: pa.StructType, wanted: StructType, names: Sequence[MappedField]
    ) -> list[int | None]:
        """Where the file has each field; None where it has not."""
        if self._has_ids:
            at = {
                int(field.metadata[_FIELD_ID]): n
                for n, field in enumerate(there)
                if _FIELD_ID in (field.metadata or {})
            }
            return [at.get(field.field_id) for field in wanted.fields]
        by_name = {field.name: n for n, field in enumerate(there)}
        known = {each.field_id: each.names for each in names}
        return [
            next((by_name[name] for name in known.get(field.field_id, ()) if name in by_name), None)
            for field in wanted.fields
        ]


def _nested(target: pa.DataType, array: pa.Array, values: pa.Array) -> pa.Array:
    """A list or map with other values at the same places."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, [values]
    )


def _fields(struct: StructType, above: str) -> list[pa.Field]:
    return [
        pa.field(field.name, _type(field.field_type, f"{above}{field.name}"))
        for field in struct.fields
    ]


def _type(wanted: IcebergType, path: str) -> pa.DataType:
    match wanted:
        case StructType():
            return pa.struct(_fields(wanted, f"{path}."))
        case ListType():
            return pa.list_(pa.field("element", _type(wanted.element_type, f"{path}.element")))
        case MapType():
            return pa.map_(
                _type(wanted.key_type, f"{path}.key"), _type(wanted.value_type, f"{path}.value")
            )
        case DecimalType():
            return pa.decimal128(wanted.precision, wanted.scale)
    found = _PLAIN.get(type(wanted))
    if found is None:
        raise UnreadableError(
            f"column {path} is {wanted}, which Spark does not read: drop it, or copy the table with"
            " it as a text"
        )
    return found


def _is_read_as(there: pa.DataType, target: pa.DataType) -> bool:
    """Whether the types are the same, or Iceberg allows a file to have the narrower one."""
    if pa.types.is_decimal(there) and pa.types.is_decimal(target):
        return bool(there.scale == target.scale and there.precision <= target.precision)
    if pa.types.is_timestamp(target):
        return bool(pa.types.is_timestamp(there))
    if target in (pa.string(), pa.binary()):
        texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        is_fixed = bool(pa.types.is_fixed_size_binary(there)) and target == pa.binary()
        return there in texts or is_fixed
    narrower: dict[pa.DataType, tuple[pa.DataType, ...]] = {
        pa.int32(): _SHORT,
        pa.int64(): (*_SHORT, pa.int32(), pa.uint32()),
        pa.float64(): (pa.float32(),),
    }
    return bool(there == target or there in narrower.get(target, ()))


def _is_list(there: pa.DataType) -> bool:
    kinds = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
    return isinstance(there, kinds)


def _mapped(names: Sequence[MappedField], field_id: int) -> Sequence[MappedField]:
    return next((each.fields for each in names if each.field_id == field_id), ())


def _repeated(value: Any, kind: pa.DataType, size: int) -> pa.Array:  # noqa: ANN401 - as manifests have it
    if value is None:
        return pa.nulls(size, kind)
    return pa.repeat(pa.scalar(str(value) if pa.types.is_string(kind) else value, kind), size)
