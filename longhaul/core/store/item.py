"""A lease as a DynamoDB item, and back; and its attempts that have ended, under the same key.

The item is flat: the fields of the job, of its receive and of its attempt side by side. Times are
whole epoch milliseconds; values with a structure are JSON text; None and empty values are left out.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import accumulate, pairwise
from math import isfinite
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from pydantic import TypeAdapter

from longhaul.core.descent import Lineage, TreeWatch
from longhaul.core.errors import UnreadableRowError
from longhaul.core.history import KEPT, AttemptRecord
from longhaul.core.lease import (
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

Item = Mapping[str, Any]
"""Attribute name to typed value, as the low-level client takes it: `{"attempt": {"N": "1"}}`."""

TERMINAL_TTL = timedelta(days=120)
"""Longer than Step Functions remembers execution names (90 days) and SQS keeps a message (14)."""

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
    """How a field's value becomes a plain one (text, integer or list of texts), and back.

    `kind`: DynamoDB's type of the plain value. A value of another type is not read.
    """

    kind: str
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


_json: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def _steps(ages: Sequence[int]) -> str:
    """Ages as steps from each to the next, the first from zero: `15,15,16`.

    Shorter than the ages themselves: 240 instead of 480 bytes for sixty beats after some days. An
    item is billed by whole kilobytes. A step is below zero where a heartbeat with a later clock
    wrote before one with an earlier.
    """
    return ",".join(str(after - before) for before, after in pairwise((0, *ages)))


def _whole(plain: str, end: int = 2**53) -> int:
    """Raises ValueError: it is no whole number below the end."""
    if not 0 <= (found := int(plain)) < end:
        raise ValueError("too large a number, or below zero")
    return found


_run: Callable[[str], int] = partial(_whole, end=_MAX_TIME)


def _moment(plain: str) -> datetime:
    return datetime.fromtimestamp(_run(plain) / 1000, UTC)


def _number(text: str) -> float:
    """A number in a report. Raises ValueError: it is not finite, or as large as none of ours."""
    if not isfinite(found := float(text)):
        raise ValueError("no finite number")
    return int(text) if text.lstrip("-").isdecimal() else found


def _report(plain: str) -> dict[str, Any]:
    """What a runner reported last."""
    found = json.loads(plain, parse_float=_number, parse_int=_number, parse_constant=_number)
    report: dict[str, Any] = _adapter(dict[str, Any]).validate_python(found)
    return report


@cache  # at the first row that has such a value: few have all of them
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a type
    return TypeAdapter(kind)


def _structured(kind: Any) -> Codec:  # noqa: ANN401 - a type
    """A value with a structure as JSON in ASCII: AWS takes no half of a surrogate pair.

    A task may have written anything there: it is checked by its type. Fields that only another
    version knows are ignored.
    """
    return Codec(
        "S",
        lambda value: _json(_adapter(kind).dump_python(value, mode="json")),
        lambda plain: _adapter(kind).validate_python(json.loads(plain)),
    )


def _watch(plain: str) -> TreeWatch:
    watch: TreeWatch = _WATCH.from_plain(plain)
    return replace(watch, stored=plain)


_TEXT = Codec("S", str, str)
_TIME = Codec("N", milliseconds, _moment)
_TEXTS = Codec("L", list, tuple)
_WATCH = _structured(TreeWatch)
_BY_TYPE: dict[Any, Codec] = {
    str: _TEXT,
    str | None: _TEXT,
    int: Codec("N", int, _whole),
    bool: Codec("N", int, lambda plain: bool(_whole(plain))),
    datetime: _TIME,
    datetime | None: _TIME,
    tuple[str, ...]: _TEXTS,
    tuple[str, ...] | None: _TEXTS,
    tuple[int, ...]: Codec(
        "S", _steps, lambda steps: tuple(accumulate(int(each) for each in steps.split(",")))
    ),
    dict[str, Any]: Codec("S", _json, _report),
    dict[str, str]: _structured(dict[str, str]),
    State: Codec("S", str, State),
    tuple[Owed, ...]: Codec(
        "L",
        lambda owed: [each.value for each in owed],
        lambda plain: tuple(map(Owed, plain)),
    ),
    tuple[DeadRun, ...]: Codec(
        "S",
        lambda runs: _json([(run.fingerprint, milliseconds(run.ended_at)) for run in runs]),
        lambda plain: tuple(
            DeadRun(fingerprint, _moment(str(ended_at)))
            for fingerprint, ended_at, *_ in json.loads(plain)
        ),
    ),
    Lineage | None: _structured(Lineage),
    RecordedResult | None: _structured(RecordedResult),
    CommittedOutput | None: _structured(CommittedOutput),
    TreeWatch | None: Codec("S", lambda watch: watch.stored or _WATCH.to_plain(watch), _watch),
    Results | None: Codec(
        "S",
        lambda results: _json(asdict(results)),
        lambda plain: read_results(json.loads(plain)),
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
            codec = Codec("N", int, _run) if name == "run" else _BY_TYPE[hint]
            yield _Column(attribute, part, name, get, codec, hint == tuple[str, ...] | None)


_LEASE_COLUMNS = tuple(_columns(Lease))
_RECORD_COLUMNS = tuple(
    column for column in _columns(AttemptRecord) if column.attribute not in _NOT_REMEMBERED
)
_BY_ATTRIBUTE = {column.attribute: column for column in _LEASE_COLUMNS}
_OF_RECORD = {column.attribute: column for column in _RECORD_COLUMNS}


def to_item(lease: Lease) -> dict[str, Any]:
    """The whole item, with the attributes that follow from the others."""
    return _stored(lease) | lease_key(lease.key)


def _stored(lease: Lease) -> dict[str, Any]:
    return _encoded(lease, _LEASE_COLUMNS) | _derived(lease)


def from_item(item: Item) -> Lease:
    """The row in an item.

    Raises:
        UnreadableRowError: a value has a form that this version does not know.
    """
    with _readable(item):
        found = _decoded(item, _BY_ATTRIBUTE)
        if output := found["attempt"].get("output"):
            found["attempt"]["output"] = output.at(found[None].get("places", {}))
        return Lease(
            **found[None], receive=Receive(**found["receive"]), attempt=Attempt(**found["attempt"])
        )


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
    with _readable(item):
        found = _decoded(item, _OF_RECORD)
        return AttemptRecord(**found[None], attempt=Attempt(**found["attempt"]))


@contextmanager
def _readable(item: Item) -> Iterator[None]:
    try:
        yield
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
    old, new = _stored(before), _stored(after)
    sets = {name: value for name, value in new.items() if old.get(name) != value}
    return sets, [name for name in old if name not in new]


def _derived(lease: Lease) -> dict[str, Any]:
    """Attributes that follow from the others: those of the indexes, and the time to live."""
    found: dict[str, Any] = {}
    if lease.state.is_terminal:
        found[ENDED.name] = serialize(f"{lease.stage}#{lease.state.value}")
    kind = lease.open_kind
    if kind is not None:
        found[OPEN.name] = serialize(f"{lease.stage}#{kind}")
    if kind in (None, "TREE"):
        # Also of a watched row: a tree that waits for a lost message would keep it for ever.
        found[TTL] = expiry(lease.ended_at)
    return found


def _encoded(row: Lease | AttemptRecord, columns: Iterable[_Column]) -> dict[str, Any]:
    return {
        column.attribute: serialize(column.codec.to_plain(value))
        for column in columns
        if not column.is_left_out(value := column.get(row))
    }


def _decoded(item: Item, columns: Mapping[str, _Column]) -> dict[str | None, dict[str, Any]]:
    """The known fields in an item, by the part that they belong to."""
    found: dict[str | None, dict[str, Any]] = {None: {}, "receive": {}, "attempt": {}}
    for name, value in item.items():
        if column := columns.get(name):
            ((kind, content),) = value.items()
            if kind != column.codec.kind:
                raise TypeError(kind)
            # The codec of a number reads its digits: each row has a dozen of them.
            plain = deserialize(value) if kind == "L" else content
            found[column.part][column.field] = column.codec.from_plain(plain)
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
