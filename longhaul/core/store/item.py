"""A lease as a DynamoDB item, and back; and its attempts that have ended, under the same key.

The item is flat: the fields of the job, of its receive and of its attempt side by side. Times are
whole epoch milliseconds; values with a structure are JSON text; None and empty values are left out.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from math import isfinite
from operator import attrgetter
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from longhaul.core.descent import MAX_GROUP, Lineage, TreeWatch
from longhaul.core.errors import UnreadableRowError
from longhaul.core.history import KEPT, AttemptRecord
from longhaul.core.lease import (
    TREE,
    Attempt,
    AttemptId,
    CommittedOutput,
    DeadRun,
    Lease,
    Owed,
    Receive,
    RecordedResult,
    State,
)
from longhaul.core.results import Results, read_results
from longhaul.core.store.table import ENDED, OPEN, PARTITION_KEY, SORT_KEY, TTL

logger = logging.getLogger(__name__)

T = TypeVar("T")
Item = Mapping[str, Any]
"""Attribute name to typed value, as the low-level client takes it: `{"attempt": {"N": "1"}}`."""

TERMINAL_TTL = timedelta(days=120)
"""Longer than Step Functions remembers execution names (90 days) and SQS keeps a message (14)."""

_MAX_NUMBER = 2**63
_MAX_COUNT = 2**53
_MAX_AGE_S = 10**9  # 31 years
_MAX_TIME = 253_370_764_800_000
"""Begin of the year 9999: what adds a time to live, or a day, stays in the calendar."""
_LEASE = "lease"
_ATTEMPT = "attempt#"

# Built once: they have no state.
_SERIALIZE: Callable[[Any], Any] = TypeSerializer().serialize
_DESERIALIZE: Callable[[Any], Any] = TypeDeserializer().deserialize


def serialize(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """The typed value. Texts and integers, most of a row, need no look at all other types."""
    if type(value) is str:
        return {"S": value}
    if type(value) is int:
        return {"N": str(value)}
    typed: dict[str, Any] = _SERIALIZE(value)
    return typed


def deserialize(typed: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The plain value. A whole number is an `int`, where boto3 makes a `Decimal` of each."""
    ((kind, content),) = typed.items()
    if kind == "S":
        return content
    if kind == "N" and content.isdecimal():
        return int(content)
    return _DESERIALIZE(typed)


def serialized(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: serialize(value) for name, value in values.items()}


def milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def time_of(value: Any) -> datetime:  # noqa: ANN401 - a typed value
    return datetime.fromtimestamp(int(deserialize(value)) / 1000, UTC)


def primary_key(key: str, item: str) -> dict[str, Any]:
    return {PARTITION_KEY: serialize(key), SORT_KEY: serialize(item)}


def lease_key(key: str) -> dict[str, Any]:
    return primary_key(key, _LEASE)


def attempt_key(key: str, number: int) -> dict[str, Any]:
    """Key of an ended attempt: of its place, so that a later attempt replaces the earliest."""
    return primary_key(key, f"{_ATTEMPT}{number % KEPT:02}")


def key_of(item: Item) -> str:
    return str(deserialize(item[PARTITION_KEY]))


def mine(attempt: AttemptId) -> dict[str, Any]:
    """Values of the clause that fences: the attempt's run and number."""
    return serialized({":run": attempt.run, ":attempt": attempt.attempt})


def expiry(end: datetime) -> dict[str, Any]:
    """The time to live of an item whose job ended then, by the clock of a function."""
    return serialize(int((end + TERMINAL_TTL).timestamp()))


class Codec(NamedTuple):
    """How a field's value becomes a plain one (text, integer or list of texts), and back."""

    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]


class _Column(NamedTuple):
    """One field of a row and its attribute."""

    attribute: str
    part: str | None  # the row's field that holds the value with this one; None: the row itself
    field: str
    get: Callable[[Any], Any]
    codec: Codec
    tells_none_from_empty: bool

    def is_left_out(self, value: Any) -> bool:  # noqa: ANN401 - any field of a row
        is_empty = value in ((), {}) and not self.tells_none_from_empty
        return value is None or value is False or is_empty

    def encode(self, row: Any) -> dict[str, Any]:  # noqa: ANN401 - a lease or a record
        return serialize(self.codec.to_plain(self.get(row)))


_json: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def _steps(ages: Sequence[int]) -> str:
    """Ages as steps from each to the next, the first from zero: `15,15,16`.

    Shorter than the ages themselves: 240 instead of 480 bytes for sixty beats after some days. An
    item is billed by whole kilobytes.
    """
    return ",".join(str(after - before) for before, after in pairwise((0, *ages)))


def _ages(steps: str) -> tuple[int, ...]:
    ages = tuple(accumulate(map(_step, steps.split(","))))
    if max(ages) >= _MAX_AGE_S:
        raise ValueError("too old")
    return ages


def _step(text: str) -> int:
    """Below zero where a heartbeat with a later clock wrote before one with an earlier."""
    size = _whole(text.removeprefix("-"), _MAX_AGE_S)
    return -size if text.startswith("-") else size


def _plain(value: Any) -> Any:  # noqa: ANN401
    return value


def _whole(plain: str, end: int) -> int:
    """Raises ValueError: the digits are those of no whole number below the end."""
    # Also `1_000` is a number for `int`.
    if not plain.isdecimal() or (found := int(plain)) >= end:
        raise ValueError("no whole number, or too large a one")
    return found


def _count(plain: str) -> int:
    return _whole(plain, _MAX_COUNT)


def _run(plain: str) -> int:
    return _whole(plain, _MAX_TIME)


def _flag(plain: str) -> bool:
    return bool(_count(plain))


def _moment(plain: str) -> datetime:
    return datetime.fromtimestamp(_run(plain) / 1000, UTC)


_OF_NUMBERS = frozenset((_count, _run, _flag, _moment))
"""What reads DynamoDB's type of number, and no text."""


def _finite(text: str) -> float:
    if not isfinite(found := float(text)):
        raise ValueError("no finite number")
    return found


def _small(text: str) -> int:
    _finite(text)
    return int(text)


def _report(plain: str) -> dict[str, Any]:
    """What a runner reported last: its numbers are finite, or it is none."""
    found = json.loads(plain, parse_float=_finite, parse_int=_small, parse_constant=_finite)
    return dict(_required(found, dict[str, Any]))


def _required(value: Any, hint: Any) -> Any:  # noqa: ANN401 - a value of JSON, and its type
    """The value if it is of that type: a task may have written anything there.

    Raises:
        TypeError: it is not.
    """
    if not _is_of(value, hint):
        raise TypeError(hint)
    return value


def _is_of(value: Any, hint: Any) -> bool:  # noqa: ANN401 - as above
    of, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, UnionType) or of is Union:
        return any(_is_of(value, each) for each in arguments)
    if hint is int:  # a boolean is none, and a larger one is no number of ours
        return type(value) is int and abs(value) < _MAX_NUMBER
    if of is dict:
        return isinstance(value, dict) and all(
            _is_of(each, arguments[1]) for each in value.values()
        )
    if of is tuple:
        return isinstance(value, list) and all(_is_of(each, arguments[0]) for each in value)
    if hint is Results:  # which reads what it knows
        return isinstance(value, dict)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        named = [each.name for each in fields(hint) if each.compare]
        return isinstance(value, dict) and all(_is_of(value[each], hints[each]) for each in named)
    return hint is Any or isinstance(value, hint)


def _written(value: Any) -> Any:  # noqa: ANN401 - a field of a dataclass
    if is_dataclass(value):
        compared = (each.name for each in fields(value) if each.compare)
        return {name: _written(getattr(value, name)) for name in compared}
    return [_written(each) for each in value] if isinstance(value, list | tuple) else value


def _nested(kind: type[Any]) -> Codec:
    """A dataclass as JSON. Fields that only another version knows are ignored.

    Fields that are not compared say how the value was read, and are not written.
    """
    known = {field.name for field in fields(kind) if field.compare}
    hints = get_type_hints(kind)

    def read(plain: str) -> Any:  # noqa: ANN401 - a `kind`
        found = json.loads(plain).items()
        given = {name: _required(value, hints[name]) for name, value in found if name in known}
        return kind(**given)

    def write(value: Any) -> str:  # noqa: ANN401 - a `kind`
        return _json(_written(value))

    return Codec(write, read)


def _of_json(hint: Any) -> Codec:  # noqa: ANN401 - a type
    return Codec(_json, lambda plain: _required(json.loads(plain), hint))


_TEXT = Codec(_plain, lambda plain: _required(plain, str))
_WATCH = _nested(TreeWatch)
_OUTPUT = _nested(CommittedOutput)


def _output(plain: str) -> CommittedOutput:
    """Raises ValueError: it emitted more than a job may, and a look at its tree would not end."""
    output: CommittedOutput = _OUTPUT.from_plain(plain)
    if any(not 0 <= size <= MAX_GROUP for size in (output.emitted or {}).values()):
        raise ValueError("emitted")
    return output


_TIME = Codec(milliseconds, _moment)
_BY_TYPE: dict[Any, Codec] = {
    str: _TEXT,
    str | None: _TEXT,
    int: Codec(_plain, _count),
    bool: Codec(int, _flag),
    datetime: _TIME,
    datetime | None: _TIME,
    tuple[str, ...]: Codec(list, tuple),
    tuple[str, ...] | None: Codec(list, tuple),
    tuple[int, ...]: Codec(_steps, _ages),
    dict[str, Any]: Codec(_json, _report),
    dict[str, str]: _of_json(dict[str, str]),
    State: Codec(lambda state: state.value, State),
    tuple[Owed, ...]: Codec(
        lambda owed: [each.value for each in owed],
        lambda plain: tuple(Owed(each) for each in plain),
    ),
    tuple[DeadRun, ...]: Codec(
        lambda runs: _json([(run.fingerprint, milliseconds(run.ended_at)) for run in runs]),
        lambda plain: tuple(
            DeadRun(fingerprint, _moment(str(ended_at)))
            for fingerprint, ended_at, *_ in json.loads(plain)
        ),
    ),
    Lineage | None: Codec(lambda lineage: lineage.model_dump_json(), Lineage.model_validate_json),
    RecordedResult | None: _nested(RecordedResult),
    CommittedOutput | None: Codec(_OUTPUT.to_plain, _output),
    TreeWatch | None: Codec(
        lambda watch: watch.stored or _WATCH.to_plain(watch),
        lambda plain: replace(_WATCH.from_plain(plain), stored=plain),
    ),
    Results | None: Codec(
        lambda results: _json(asdict(results)), lambda plain: read_results(json.loads(plain))
    ),
}
_PARTS: dict[Any, str] = {Receive: "receive", Attempt: "attempt"}
_RENAMED: dict[tuple[type, str], str] = {(Attempt, "number"): "attempt"}
# Of an attempt that has ended these are in the row alone.
_NOT_REMEMBERED = {
    "lease_expires_at",
    "progress_at",
    "reported_at",
    "result",
    "output",
    "is_over",
    "gone_at",
    "published_at",
}


def _columns(kind: type, part: str | None = None) -> Iterable[_Column]:
    """The fields of a row, those of its parts among them.

    A field of a type that has no codec fails here, at import, and not at the first job.
    """
    for name, hint in get_type_hints(kind).items():
        if hint in _PARTS:
            yield from _columns(hint, _PARTS[hint])
        else:
            get = attrgetter(f"{part}.{name}" if part else name)
            attribute = _RENAMED.get((kind, name), name)
            codec = Codec(_plain, _run) if name == "run" else _BY_TYPE[hint]
            yield _Column(attribute, part, name, get, codec, hint == tuple[str, ...] | None)


_LEASE_COLUMNS = tuple(_columns(Lease))
_RECORD_COLUMNS = tuple(
    column for column in _columns(AttemptRecord) if column.attribute not in _NOT_REMEMBERED
)
_BY_ATTRIBUTE = {column.attribute: column for column in _LEASE_COLUMNS}

# By attribute: part, field, and how it is read.
_Readers = Mapping[str, tuple[str | None, str, Callable[[Any], Any]]]


def _readers(columns: Iterable[_Column]) -> _Readers:
    return {each.attribute: (each.part, each.field, each.codec.from_plain) for each in columns}


_OF_LEASE, _OF_RECORD = _readers(_LEASE_COLUMNS), _readers(_RECORD_COLUMNS)


def to_item(lease: Lease) -> dict[str, Any]:
    """The whole item, with the attributes that follow from the others."""
    return _encoded(lease, _LEASE_COLUMNS) | lease_key(lease.key) | _derived(lease)


def from_item(item: Item) -> Lease:
    """The row in an item.

    Raises:
        UnreadableRowError: a value has a form that this version does not know.
    """

    def lease() -> Lease:
        found = _decoded(item, _OF_LEASE)
        if output := found["attempt"].get("output"):
            found["attempt"]["output"] = output.at(found[None].get("places", {}))
        return Lease(
            **found[None], receive=Receive(**found["receive"]), attempt=Attempt(**found["attempt"])
        )

    return _read(item, lease)


def record_item(record: AttemptRecord) -> dict[str, Any]:
    """The item of an attempt that has ended.

    Without the attributes of the indexes: it is read by its key alone.
    """
    ended_at = record.ended_at or record.attempt.claimed_at
    key = attempt_key(record.key, record.attempt.number)
    return _encoded(record, _RECORD_COLUMNS) | key | {TTL: expiry(ended_at)}


def record_from(item: Item) -> AttemptRecord:
    """The attempt in an item that `record_item` made.

    Raises:
        UnreadableRowError: a value has a form that this version does not know.
    """

    def record() -> AttemptRecord:
        found = _decoded(item, _OF_RECORD)
        return AttemptRecord(**found[None], attempt=Attempt(**found["attempt"]))

    return _read(item, record)


def _read(item: Item, read: Callable[[], T]) -> T:
    try:
        return read()
    except Exception as error:  # noqa: BLE001 - what another version writes is not foreseen
        logger.error(  # noqa: TRY400 - without the values, which the traceback quotes
            "the row of %s cannot be read by this version",
            key_of(item),
            extra={"lease": key_of(item), "error": type(error).__name__},
        )
        # Not `from error`: a traceback of this one would quote them too.
        raise UnreadableRowError(key_of(item)) from None


def attributes(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same for values without a row."""
    return {
        name: serialize(_BY_ATTRIBUTE[name].codec.to_plain(value)) for name, value in values.items()
    }


def changes(before: Lease, after: Lease) -> tuple[dict[str, Any], list[str]]:
    """What to SET and what to REMOVE to make the row `before` the row `after`.

    An attribute that is equal in both is left alone.
    """
    sets: dict[str, Any] = {}
    removes = []
    for column in _LEASE_COLUMNS:
        old, new = column.get(before), column.get(after)
        if old == new:
            continue
        if not column.is_left_out(new):
            sets[column.attribute] = column.encode(after)
        elif not column.is_left_out(old):
            removes.append(column.attribute)
    old_derived, new_derived = _derived(before), _derived(after)
    sets |= {name: value for name, value in new_derived.items() if old_derived.get(name) != value}
    return sets, removes + [name for name in old_derived if name not in new_derived]


def _derived(lease: Lease) -> dict[str, Any]:
    """Attributes that follow from the others: those of the indexes, and the time to live."""
    found: dict[str, Any] = {}
    if lease.state.is_terminal:
        found[ENDED.name] = serialize(f"{lease.stage}#{lease.state.value}")
    if kind := lease.open_kind or (TREE if lease.is_watched else None):
        found[OPEN.name] = serialize(f"{lease.stage}#{kind}")
    if not lease.open_kind:
        # Also of a watched row: a tree that waits for a lost message would keep it for ever.
        found[TTL] = expiry(lease.ended_at)
    return found


def _encoded(row: Lease | AttemptRecord, columns: Iterable[_Column]) -> dict[str, Any]:
    return {
        column.attribute: column.encode(row)
        for column in columns
        if not column.is_left_out(column.get(row))
    }


def _decoded(item: Item, readers: _Readers) -> dict[str | None, dict[str, Any]]:
    """The known fields in an item, by the part that they belong to."""
    found: dict[str | None, dict[str, Any]] = {None: {}, "receive": {}, "attempt": {}}
    for name, value in item.items():
        if reader := readers.get(name):
            part, field, from_plain = reader
            ((kind, content),) = value.items()
            if (kind == "N") is not (from_plain in _OF_NUMBERS):
                raise TypeError(kind)
            # The codec of a number reads its digits: each row has a dozen of them.
            plain = content if kind in ("S", "N") else deserialize(value)
            found[part][field] = from_plain(plain)
    return found


def update_expression(
    sets: Mapping[str, Any], removes: Iterable[str] = (), add: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The arguments of UpdateItem that change an item.

    Each name and value has a placeholder, because many of our names are DynamoDB's own words.
    """
    removes, add = list(removes), add or {}
    parts = []
    if sets:
        parts.append("SET " + ", ".join(f"#n_{name} = :v_{name}" for name in sets))
    if removes:
        parts.append("REMOVE " + ", ".join(f"#n_{name}" for name in removes))
    if add:
        parts.append("ADD " + ", ".join(f"#n_{name} :a_{name}" for name in add))
    values = {f":v_{name}": value for name, value in sets.items()}
    return {
        "UpdateExpression": " ".join(parts),
        "ExpressionAttributeNames": {f"#n_{name}": name for name in (*sets, *removes, *add)},
        "ExpressionAttributeValues": values
        | {f":a_{name}": serialize(by) for name, by in add.items()},
    }
