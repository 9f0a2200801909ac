"""Iceberg's field ids for Parquet files that Spark wrote: with them a reader needs no names.

So a column that was renamed keeps its old values, and one that was dropped and added again does
not get them back. Only the footer is written again (Thrift's compact protocol); data pages stay as
they are.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType

_I32: Final = 5
_LIST: Final = 9
_STRUCT: Final = 12
_LONG_LIST: Final = 15
_MAGIC: Final = b"PAR1"
_TAIL: Final = 8  # the footer's size, and the magic
# Of parquet.thrift: FileMetaData.schema, and of a SchemaElement:
_SCHEMA: Final = 2
_NAME: Final = 4
_CHILDREN: Final = 5
_FIELD_ID: Final = 9

Field = tuple[int, int, bytes]
"""Number, type and encoded value."""


def write_ids(file: Path, schema: Schema) -> None:
    """Put the field ids of `schema` into the file's footer, in place.

    Raises:
        ValueError: it is no Parquet file of these columns.
    """
    with file.open("r+b") as opened:
        opened.seek(-_TAIL, 2)
        tail = opened.read(_TAIL)
        if tail[4:] != _MAGIC:
            raise ValueError(f"{file.name} is no Parquet file")
        (size,) = struct.unpack("<I", tail[:4])
        opened.seek(-_TAIL - size, 2)
        begins = opened.tell()
        before = opened.read(size)
        footer = _with_ids(before, schema)
        if footer == before:  # what was sent of the file stays of use
            return
        opened.seek(begins)
        opened.write(footer + struct.pack("<I", len(footer)) + _MAGIC)
        opened.truncate()


def _with_ids(footer: bytes, schema: Schema) -> bytes:
    fields = list(_Reader(footer).fields())
    at = next(n for n, (number, _, _) in enumerate(fields) if number == _SCHEMA)
    reader = _Reader(fields[at][2])
    size, _ = reader.list_header()
    elements = [list(reader.fields()) for _ in range(size)]
    _mark(elements, 0, schema.as_struct(), None)
    header = (
        bytes([size << 4 | _STRUCT])
        if size < _LONG_LIST
        else bytes([_LONG_LIST << 4 | _STRUCT]) + _varint(size)
    )
    fields[at] = (_SCHEMA, _LIST, header + b"".join(map(_struct, elements)))
    return _struct(fields)


def _mark(elements: list[list[Field]], at: int, type_: IcebergType, id_: int | None) -> int:
    """Mark one element and those below it, in preorder; returns where the next one is."""
    found = {number: raw for number, _, raw in elements[at]}
    if id_ is not None:
        kept = [field for field in elements[at] if field[0] != _FIELD_ID]
        elements[at] = [*kept, (_FIELD_ID, _I32, _varint(id_ << 1))]
    children = _Reader(found[_CHILDREN]).varint() >> 1 if _CHILDREN in found else 0
    at += 1
    if isinstance(type_, ListType):
        return _mark(elements, at + 1, type_.element_type, type_.element_id)  # past `list`
    if isinstance(type_, MapType):
        at = _mark(elements, at + 1, type_.key_type, type_.key_id)  # past `key_value`
        return _mark(elements, at, type_.value_type, type_.value_id)
    if isinstance(type_, StructType):
        for _ in range(children):
            name = _Reader(next(raw for n, _, raw in elements[at] if n == _NAME)).text()
            column = type_.field_by_name(name)
            if column is None:
                raise ValueError(f"the file has a column {name} that was not written")
            at = _mark(elements, at, column.field_type, column.field_id)
    return at


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the bit that says whether more follow
                return value

    def list_header(self) -> tuple[int, int]:
        """Size, and type of the elements."""
        byte = self._data[self._at]
        self._at += 1
        return (self.varint() if byte >> 4 == _LONG_LIST else byte >> 4), byte & 15

    def fields(self) -> Iterator[Field]:
        """The fields of the struct that begins here; after the last one, past it."""
        number = 0
        while (byte := self._data[self._at]) != 0:
            self._at += 1
            if byte >> 4:
                number += byte >> 4
            else:
                raw = self.varint()
                number = (raw >> 1) ^ -(raw & 1)
            begun = self._at
            self._skip(byte & 15)
            yield number, byte & 15, self._data[begun : self._at]
        self._at += 1

    def text(self) -> str:
        size = self.varint()
        return self._data[self._at : self._at + size].decode()

    def _skip(self, kind: int, *, in_list: bool = False) -> None:
        match kind:
            case 1 | 2:  # a field's truth is in its type
                self._at += in_list
            case 3:
                self._at += 1
            case 4 | 5 | 6:
                self.varint()
            case 7:
                self._at += 8
            case 8:
                size = self.varint()
                self._at += size
            case 9 | 10:
                size, of = self.list_header()
                for _ in range(size):
                    self._skip(of, in_list=True)
            case 12:
                for _ in self.fields():
                    pass
            case _:
                raise ValueError(f"type {kind} in a Parquet footer")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _struct(fields: list[Field]) -> bytes:
    out, last = bytearray(), 0
    for number, kind, raw in sorted(fields, key=lambda field: field[0]):
        delta = number - last
        out += (
            bytes([delta << 4 | kind])
            if 0 < delta <= 15  # noqa: PLR2004 - four bits
            else bytes([kind]) + _varint(number << 1)
        )
        out, last = out + raw, number
    return bytes(out) + b"\0"
