"""Tables of the DynamoDB fake: rows by key, and KEYS_ONLY indexes that follow a little later."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.attribute_values import Item, Value, invalid, kind_of

PrimaryKey = tuple[Any, ...]

_MAX_HASH_BYTES = 2048
_MAX_SORT_BYTES = 1024


@dataclass
class Row:
    """`before` is what a weakly consistent read may still see until `written_at` is long enough ago."""

    item: Item | None
    before: Item | None
    written_at: float


@dataclass
class Index:
    """Rows that have the index's key, as the index shows them: by that key, then by primary key."""

    name: str
    hash_key: str
    sort_key: str | None = None
    shown: dict[Any, dict[PrimaryKey, Item]] = field(default_factory=dict)
    _at: dict[PrimaryKey, Any] = field(default_factory=dict)
    _coming: deque[tuple[float, PrimaryKey, Any, Item]] = field(default_factory=deque)

    def note(self, key: PrimaryKey, item: Item | None, keys: Item, shows_at: float) -> None:
        value = self._hash_value(item or {})
        if self._coming:  # changes show in the order in which they were made
            shows_at = max(shows_at, self._coming[-1][0])
        self._coming.append((shows_at, key, None if value is None else value[kind_of(value)], keys))

    def keys_of(self, item: Item) -> tuple[Value | None, ...]:
        """What places the item in the index; an item without one of them is not in it."""
        return tuple(item.get(name) for name in (self.hash_key, self.sort_key) if name)

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
        """The primary key that a request names: just the key's attributes."""
        if len(key) != len(self.key_names):
            raise invalid("The provided key element does not match the schema")
        return self.key_in(key)

    def key_in(self, item: Mapping[str, Value]) -> PrimaryKey:
        """The primary key of an item."""
        for name, limit in zip(self.key_names, (_MAX_HASH_BYTES, _MAX_SORT_BYTES), strict=False):
            if name not in item:
                raise invalid(f"One or more parameter values were invalid: Missing the key {name} in the item")
            self._check_type(name, item[name], f"Type mismatch for key {name}")
            content = item[name][self.types[name]]
            if not content:
                raise invalid(
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. "
                    f"Key: {name}"
                )
            if len(str(content).encode()) > limit:
                raise invalid(
                    f"One or more parameter values were invalid: Size of key {name} has exceeded {limit} bytes"
                )
        return tuple(item[name][self.types[name]] for name in self.key_names)

    def check_index_keys(self, item: Item) -> None:
        """An attribute that an index is keyed by may be absent, but not empty and of no other type."""
        for index in self.indexes.values():
            for name in (index.hash_key, index.sort_key):
                value = item.get(name) if name else None
                if name is None or value is None:
                    continue
                self._check_type(name, value, f"Type mismatch for Index Key {name}")
                if not value[self.types[name]]:
                    raise invalid(
                        "One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for "
                        f"a key attribute cannot contain an empty string value. IndexName: {index.name}, IndexKey: {name}"
                    )

    def read(self, key: PrimaryKey) -> Item | None:
        row = self.rows.get(key)
        return None if row is None else row.item

    def read_weakly(self, key: PrimaryKey, seen_until: float) -> Item | None:
        """As it was at `seen_until`, or as of the last write but one if that is younger."""
        row = self.rows.get(key)
        if row is None:
            return None
        return row.before if row.written_at > seen_until else row.item

    def write(self, key: PrimaryKey, item: Item | None, now: float, index_lag_s: float) -> None:
        before = self.read(key)
        self.rows[key] = Row(item, before, now)
        for index in self.indexes.values():
            if index.keys_of(before or {}) != index.keys_of(item or {}):
                whole = item or before or {}
                names = (*self.key_names, index.hash_key, *((index.sort_key,) if index.sort_key else ()))
                keys = {name: whole[name] for name in names if name in whole}
                index.note(key, item, keys, now + index_lag_s)

    def items_under(self, hash_value: Any) -> Iterator[tuple[PrimaryKey, Item]]:
        return ((key, row.item) for key, row in self.rows.items() if key[0] == hash_value and row.item is not None)

    def _check_type(self, name: str, value: Value, problem: str) -> None:
        if kind_of(value) != self.types[name]:
            raise invalid(
                f"One or more parameter values were invalid: {problem} Expected: {self.types[name]} Actual: {kind_of(value)}"
            )


def table_of(request: Mapping[str, Any]) -> Table:
    """From CreateTable's arguments, or a template's properties of the same names."""
    types = {each["AttributeName"]: each["AttributeType"] for each in request["AttributeDefinitions"]}
    keys = {each["KeyType"]: each["AttributeName"] for each in request["KeySchema"]}
    indexes = {}
    for each in request.get("GlobalSecondaryIndexes", []):
        schema = {part["KeyType"]: part["AttributeName"] for part in each["KeySchema"]}
        if each["Projection"] != {"ProjectionType": "KEYS_ONLY"} or types.get(schema.get("RANGE", ""), "N") != "N":
            raise NotImplementedError("this fake knows KEYS_ONLY indexes, sorted by a number if at all")
        indexes[each["IndexName"]] = Index(each["IndexName"], schema["HASH"], schema.get("RANGE"))
    return Table(request["TableName"], tuple(keys[kind] for kind in ("HASH", "RANGE") if kind in keys), types, indexes)
