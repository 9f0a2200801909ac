"""Tables of the DynamoDB fake: rows by key, and KEYS_ONLY indexes that lag behind.

DynamoDB's typed values: validated, normalised, compared, added and measured.

Those of the product: texts, numbers, booleans, sets of texts, lists and maps.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulation.aws.service import RefusedError

Value = Mapping[str, Any]
Item = dict[str, Value]

MAX_ITEM_BYTES = 400 * 1024
_INTEGER = re.compile(r"-?[1-9][0-9]{0,37}|0")


def invalid(message: str) -> RefusedError:
    return RefusedError("ValidationException", message)


def stored(value: Value) -> Value:
    """A copy as DynamoDB returns it. It is never changed, so items may share it."""
    if len(value) != 1:
        raise invalid(
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of"
            " the supported datatypes"
        )
    ((kind, content),) = value.items()
    match kind:
        case "S" | "BOOL":
            return {kind: content}
        case "N":
            return {kind: _normal(content)}
        case "L":
            return {kind: [stored(each) for each in content]}
        case "M":
            return {kind: {name: stored(each) for name, each in content.items()}}
        case "SS" if content:
            return {kind: sorted(set(content))}  # a set has no order; the same in each process
        case "SS":
            raise invalid(
                "One or more parameter values were invalid: An string set  may not be empty"
            )
    raise NotImplementedError(f"this fake knows no values of the type {kind}")


def _normal(text: str) -> str:
    if not _INTEGER.fullmatch(text):
        raise NotImplementedError(f"this fake knows whole numbers, and not {text!r}")
    return text


def plus(left: Value, right: Value, sign: int = 1) -> Value | None:
    """The sum (or difference) of two numbers; None when they are not."""
    if "N" not in left or "N" not in right:
        return None
    return {"N": _normal(str(int(left["N"]) + sign * int(right["N"])))}


def kind_of(value: Value) -> str:
    return next(iter(value))


def order_of(value: Value) -> Any:
    """A sort key among values of its type. Code points sort strings as UTF-8 bytes do."""
    return int(value["N"]) if "N" in value else value[kind_of(value)]


def size_of(item: Item, names: Iterable[str]) -> int:
    """Bytes of some attributes, which may be absent, that count towards the 400 KiB of an item."""
    return sum(_text_size(name) + _size(item[name]) for name in names if name in item)


def _size(value: Value) -> int:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return _text_size(content)
        case "N":
            return len(content) // 2 + 2
        case "L":
            return 3 + sum(1 + _size(each) for each in content)
        case "M":
            return 3 + sum(1 + _text_size(name) + _size(each) for name, each in content.items())
        case "SS":
            return 3 + sum(len(each) for each in content)
    return 1


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


PrimaryKey = tuple[Any, ...]

_MAX_HASH_BYTES = 2048
_MAX_SORT_BYTES = 1024
_MAX_BYTES_OF_CHARACTER = 4


@dataclass
class Row:
    item: Item | None
    size: int  # bytes of the item


@dataclass
class Index:
    """A global secondary index: its rows by its hash key, then by primary key."""

    name: str
    hash_key: str
    sort_key: str | None = None
    shown: dict[Any, dict[PrimaryKey, Item]] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # of its own keys
    _at: dict[PrimaryKey, Any] = field(default_factory=dict)
    _coming: deque[tuple[float, PrimaryKey, Any, Item]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.names = tuple(name for name in (self.hash_key, self.sort_key) if name)

    def note(self, key: PrimaryKey, item: Item | None, keys: Item, shows_at: float) -> None:
        value = self._hash_value(item or {})
        if self._coming:  # changes appear in the order of their writes
            shows_at = max(shows_at, self._coming[-1][0])
        self._coming.append((shows_at, key, None if value is None else value[kind_of(value)], keys))

    def keys_of(self, item: Item) -> tuple[Value | None, ...]:
        """The item's index keys; an item that lacks one is not in the index."""
        return tuple([item.get(name) for name in self.names])

    def is_same(self, before: Item, item: Item) -> bool:
        """Whether an update wrote none of its keys: values that it leaves alone are shared."""
        return all([before.get(name) is item.get(name) for name in self.names])  # noqa: C419 - a list is faster

    def _hash_value(self, item: Item) -> Value | None:
        return None if None in self.keys_of(item) else item[self.hash_key]

    def catch_up(self, now: float) -> None:
        while self._coming and self._coming[0][0] <= now:
            _, key, value, keys = self._coming.popleft()
            if key in self._at:
                self.shown[self._at.pop(key)].pop(key)
            if value is not None:
                self._at[key] = value
                self.shown.setdefault(value, {})[key] = keys


@dataclass
class Table:
    name: str
    key_names: tuple[str, ...]  # partition key, then sort key if there is one
    types: Mapping[str, str]
    indexes: dict[str, Index]
    rows: dict[PrimaryKey, Row] = field(default_factory=dict)

    def key_of(self, key: Mapping[str, Value]) -> PrimaryKey:
        """The primary key in a request, which has the key's attributes only."""
        if len(key) != len(self.key_names):
            raise invalid("The provided key element does not match the schema")
        return self.key_in(key)

    def key_in(self, item: Mapping[str, Value]) -> PrimaryKey:
        """The primary key of an item."""
        for name, limit in zip(self.key_names, (_MAX_HASH_BYTES, _MAX_SORT_BYTES), strict=False):
            text = item[name].get("S") if name in item else None
            if text and self.types[name] == "S" and len(text) < limit / _MAX_BYTES_OF_CHARACTER:
                continue  # nearly always
            if name not in item:
                raise invalid(
                    f"One or more parameter values were invalid: Missing the key {name} in the item"
                )
            self._check_type(name, item[name], f"Type mismatch for key {name}")
            content = item[name][self.types[name]]
            if not content:
                raise invalid(
                    "One or more parameter values are not valid. The AttributeValue for a key"
                    f" attribute cannot contain an empty string value. Key: {name}"
                )
            if len(str(content).encode()) > limit:
                raise invalid(
                    f"One or more parameter values were invalid: Size of key {name} has exceeded"
                    f" {limit} bytes"
                )
        return tuple([item[name][self.types[name]] for name in self.key_names])

    def check_index_keys(self, item: Item, before: Item | None) -> None:
        """Refuse a new index key that is empty or of another type; it may be absent."""
        for index in self.indexes.values():
            for name in index.names:
                value = item.get(name)
                if value is None or (before is not None and before.get(name) is value):
                    continue
                self._check_type(name, value, f"Type mismatch for Index Key {name}")
                if not value[self.types[name]]:
                    raise invalid(
                        "One or more parameter values are not valid. A value specified for a"
                        " secondary index key is not supported. The AttributeValue for a key"
                        " attribute cannot contain an empty string value."
                        f" IndexName: {index.name}, IndexKey: {name}"
                    )

    def read(self, key: PrimaryKey) -> Item | None:
        row = self.rows.get(key)
        return None if row is None else row.item

    def size_of(self, key: PrimaryKey) -> int:
        row = self.rows.get(key)
        return 0 if row is None else row.size

    def write(
        self, key: PrimaryKey, item: Item | None, now: float, index_lag_s: float, size: int
    ) -> None:
        before = self.read(key)
        self.rows[key] = Row(item, size)
        for index in self.indexes.values():
            if before is not None and item is not None and index.is_same(before, item):
                continue
            if index.keys_of(before or {}) != index.keys_of(item or {}):
                whole = item or before or {}
                names = (*self.key_names, *index.names)
                keys = {name: whole[name] for name in names if name in whole}
                index.note(key, item, keys, now + index_lag_s)

    def items_under(self, hash_value: Any) -> Iterator[tuple[PrimaryKey, Item]]:
        return (
            (key, row.item)
            for key, row in self.rows.items()
            if key[0] == hash_value and row.item is not None
        )

    def _check_type(self, name: str, value: Value, problem: str) -> None:
        if kind_of(value) != self.types[name]:
            raise invalid(
                f"One or more parameter values were invalid: {problem}"
                f" Expected: {self.types[name]} Actual: {kind_of(value)}"
            )


def table_of(request: Mapping[str, Any]) -> Table:
    """A table from CreateTable's arguments, or from a template's properties of the same names."""
    types = {
        each["AttributeName"]: each["AttributeType"] for each in request["AttributeDefinitions"]
    }
    keys = {each["KeyType"]: each["AttributeName"] for each in request["KeySchema"]}
    indexes = {}
    for each in request.get("GlobalSecondaryIndexes", []):
        schema = {part["KeyType"]: part["AttributeName"] for part in each["KeySchema"]}
        if (
            each["Projection"] != {"ProjectionType": "KEYS_ONLY"}
            or types.get(schema.get("RANGE", ""), "N") != "N"
        ):
            raise NotImplementedError(
                "this fake knows KEYS_ONLY indexes, sorted by a number if at all"
            )
        indexes[each["IndexName"]] = Index(each["IndexName"], schema["HASH"], schema.get("RANGE"))
    return Table(
        request["TableName"],
        tuple(keys[kind] for kind in ("HASH", "RANGE") if kind in keys),
        types,
        indexes,
    )
