"""Which jobs a backfill has sent: an item under the key that its name would have as a job."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from longhaul.core.descent import TreeWatch
from longhaul.core.store.item import (
    Item,
    deserialize,
    expiry,
    key_of,
    milliseconds,
    primary_key,
    serialized,
    time_of,
)
from longhaul.core.store.records import Records
from longhaul.core.store.table import OPEN, TTL
from longhaul.pipelines.backfill import Backfill

_ITEM: Final = "backfill"
_NONE: Final[Mapping[str, datetime]] = {}

# A command that began after the cancel goes on.
NOT_CANCELLED: Final = "attribute_not_exists(cancelled_at) OR cancelled_at < :began_at"

# The first of these: what the cancel has ended is not left any more.
FIRST_SINCE: Final = "began_at <= cancelled_at AND cancelled_at < :began_at"

# Other jobs have such ids, too: a rerun of a success, or what somebody submits.
HAS_SENT: Final = "contains(sent_values, :value)"

# A watch of which an earlier end was told goes on from there.
_WATCHES: Final = "#open = :open, told = if_not_exists(told, :zero)"


class DynamoBackfills:
    """`backfill.Backfills`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def note_begun(
        self,
        key: str,
        left: Iterable[str],
        now: datetime,
        began_at: datetime,
        stale: Mapping[str, datetime] = _NONE,
    ) -> bool:
        sets, deletes, names = "SET #ttl = :ttl, began_at = :began_at", "", {"#ttl": TTL}
        noted = {":left": set(left), ":began_at": milliseconds(began_at)}
        if stale:
            deletes, noted[":stale"] = "DELETE again_values :stale", _texts(stale)
        given = serialized(noted) | {":ttl": expiry(now)}
        return self._update(
            key, f"{sets}, left_values = :left {deletes}", names, given, FIRST_SINCE
        ) or self._update(
            key, f"{sets} ADD left_values :left {deletes}", names, given, NOT_CANCELLED
        )

    def note_sent(
        self,
        key: str,
        values: Iterable[str],
        now: datetime,
        again: Mapping[str, datetime] = _NONE,
        *,
        watches: bool = False,
    ) -> None:
        # Sets: what two commands send at once is there, each once.
        sets, adds, removes = "#ttl = :ttl", "sent_values :values", ""
        noted = {":values": set(values)}
        if again:
            adds = f"{adds}, again_values :again"
            noted[":again"] = _texts(again)
        names, given = {"#ttl": TTL}, serialized(noted) | {":ttl": expiry(now)}
        if watches:
            # In the write that makes it larger: a sweep may be about to note that its end is told.
            sets, adds, removes = f"{sets}, {_WATCHES}", f"{adds}, ends :one", "REMOVE looked"
            names, given = names | {"#open": OPEN.name}, given | _of_watch(key)
        update = f"SET {sets} {removes} ADD {adds} DELETE left_values :values"
        self._update(key, update, names, given)

    def watch_again(self, key: str, job: str, now: datetime) -> None:
        value = job.removeprefix(f"{key}/")
        self._update(
            key,
            f"SET #ttl = :ttl, {_WATCHES} REMOVE looked ADD ends :one",
            {"#ttl": TTL, "#open": OPEN.name},
            {":ttl": expiry(now)} | _of_watch(key) | serialized({":value": value}),
            HAS_SENT,
        )

    def note_look(self, key: str, before: TreeWatch, after: TreeWatch) -> bool:
        looked = json.dumps({"waits_for": after.waits_for})
        given = {
            ":ends": before.ends,
            ":told": before.told,
            ":after": after.told,
            ":looked": looked,
        }
        update, names = "SET told = :after, looked = :looked", {}
        if not after.is_due:
            update, names = f"{update} REMOVE #open, again_values", {"#open": OPEN.name}
        is_same = "ends = :ends AND told = :told"
        return self._update(key, update, names, serialized(given), is_same)

    def _update(
        self,
        key: str,
        update: str,
        names: dict[str, str],
        values: dict[str, Any],
        condition: str | None = None,
    ) -> bool:
        """Update the item; False, with nothing changed, where the condition does not hold."""
        request: dict[str, Any] = {
            "Key": primary_key(key, _ITEM),
            "UpdateExpression": update,
            "ExpressionAttributeValues": values,
            **({"ExpressionAttributeNames": names} if names else {}),
        }
        if condition is None:
            self._records.update(**request)
            return True
        return self._records.update_if(condition, **request) is not None

    def note_cancel(self, key: str, now: datetime) -> None:
        self._update(key, "SET cancelled_at = :now", {}, serialized({":now": milliseconds(now)}))

    def find_backfills(self, keys: Iterable[str]) -> Mapping[str, Backfill]:
        found = self._records.many(primary_key(key, _ITEM) for key in dict.fromkeys(keys))
        return {
            key_of(item): _backfill(item)
            for item in found
            if item.keys() & {"sent_values", "left_values"}  # not where a cancel outlived them
        }


def _of_watch(key: str) -> dict[str, Any]:
    opened = f"{key.partition('#')[0]}#BACKFILL"
    return serialized({":open": opened, ":zero": 0, ":one": 1})


def _texts(again: Mapping[str, datetime]) -> set[str]:
    return {f"{value}@{milliseconds(at)}" for value, at in again.items()}


def _sent_again(text: str) -> tuple[str, datetime]:
    value, _, at = text.rpartition("@")
    return value, datetime.fromtimestamp(int(at) / 1000, UTC)


def _backfill(item: Item) -> Backfill:
    plain = {name: deserialize(value) for name, value in item.items()}
    watch = None
    if "ends" in plain:
        looked = json.loads(plain.get("looked", "{}"))
        watch = TreeWatch(plain["ends"], plain["told"], looked.get("waits_for"))
    return Backfill(
        key_of(item),
        tuple(sorted(plain.get("sent_values", ()))),
        tuple(sorted(plain.get("left_values", ()))),
        dict(map(_sent_again, sorted(plain.get("again_values", ())))),  # the latest of each
        began_at=time_of(item["began_at"]) if "began_at" in item else None,
        cancelled_at=time_of(item["cancelled_at"]) if "cancelled_at" in item else None,
        watch=watch,
    )
