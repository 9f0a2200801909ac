"""Joins: for how many jobs each still waits, and what has arrived.

An item has the number, and one more for each job that succeeded says what took its place. Both are
one transaction, so a repeat changes nothing. A job is counted if the one before it was, in the same
run, and led to it. Each write is small, however many jobs there are; the outputs are read once, by
the job that completes them.

A later run of a job that was counted takes the place of the earlier one, with all that descends
from it, also when the join has started:

    close      the item of the job, and each below it that led on: nothing more is counted there
    replace    one transaction: the job's item, and the number without what the earlier run had left
               to wait for, and with what the later one leads to; the changes are counted, too

What is left below the job names another run of the job before it, and so does not count. Once
nothing is left to wait for the join starts again, with all outputs: after another number of
changes, which tells a later start from an earlier one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from aws_lambda_powertools import Logger

from longhaul.core.descent import Lineage
from longhaul.core.store.item import (
    Item,
    deserialize,
    expiry,
    key_of,
    primary_key,
    serialized,
)
from longhaul.core.store.records import Records, has_failed
from longhaul.core.store.table import PARTITION_KEY, SORT_KEY, TTL
from longhaul.pipelines.follow_ons import Complete, JoinStanding, Replaced

logger = Logger(child=True)

_WAITS = "waits"
_DONE = "done#"
_TO = "to_"
_LIVES = timedelta(days=5 * 365)
"""Beside the row's 120 days: a job may come late, and a join must not wait for what is forgotten.
"""

# The clauses of the conditions, each with what it keeps out.
ABSENT = "attribute_not_exists(#key)"  # a repeat counts nothing
# What an earlier run of the job before led to, is no repeat. Its item has been left there.
OF_ANOTHER_RUN = "(attribute_exists(#of) AND #of <> :of)"
LED_HERE = "#to > :n"  # a place to which the job before did not lead
SAME_RUN = "#run = :run"  # what descends from a run that another has replaced
OPEN = "attribute_not_exists(closed)"  # what a later run of a job before is about to replace
CLOSED = "attribute_exists(closed)"  # nothing is replaced of which more may still be counted

Path = tuple[tuple[str, int], ...]


class DynamoJoins:
    """`follow_ons.Joins`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def note_success(self, replaced: Replaced, now: datetime) -> Complete | None:
        """See `follow_ons.Joins`."""
        key, ttl = replaced.join.key, expiry(now + _LIVES)
        if not self._note(replaced, ttl):
            logger.info("a join does not wait for this job", extra={"join": key})
            return None
        standing = self._standing(key)
        if standing.waits_for:
            return None
        items = self._items(key, _DONE)
        if self._standing(key) != standing:
            # A later run took a place meanwhile. The function that noted it looks once more.
            return None
        outputs = [
            deserialize(item["output"])
            for _, item in _items_that_count((), items)
            if "output" in item
        ]
        noted = _lineage_in(items[_done_key(())])
        return Complete(outputs, noted.model_copy(update={"run": standing.changes}))

    def standings(self, join_keys: Iterable[str]) -> Mapping[str, JoinStanding]:
        """See `follow_ons.Joins`."""
        found = self._records.many(primary_key(key, _WAITS) for key in join_keys)
        return {key_of(item): _standing_in(item) for item in found}

    def _standing(self, key: str) -> JoinStanding:
        item = self._records.get(primary_key(key, _WAITS))
        if item is None:
            raise AssertionError(f"{key} was noted a moment ago")
        return _standing_in(item)

    def noted_lineage(self, join_key: str) -> Lineage | None:
        """See `follow_ons.Joins`."""
        item = self._records.get(primary_key(join_key, _done_key(())))
        return None if item is None else _lineage_in(item)

    def _note(self, replaced: Replaced, ttl: dict[str, Any]) -> bool:
        """Write what takes the job's place, once; whether it is written, now or before."""
        new = f"{ABSENT} OR {OF_ANOTHER_RUN}"
        reasons = self._records.transact(
            [
                self._put(replaced, ttl, new, {"#of": "of"}, {":of": replaced.of}),
                self._add(replaced, sum(replaced.by.values()) - 1, ttl),
                *self._before(replaced),
            ],
        )
        if reasons is None:
            return True
        if not has_failed(reasons[0]):
            return False
        noted = deserialize(reasons[0]["Item"]["run"])
        if noted == replaced.run:
            return True
        return noted < replaced.run and self._replace(replaced, noted, ttl)

    def _replace(self, replaced: Replaced, run: int, ttl: dict[str, Any]) -> bool:
        """Take the place of an earlier `run`, and of all that descends from it; whether it did."""
        above = _done_key(replaced.path).rpartition("#")[0]
        while True:
            found = dict(_items_that_count(replaced.path, self._items(replaced.join.key, above)))
            left = [
                path
                for path, item in found.items()
                if "closed" not in item and (path == replaced.path or _led_to(item))
            ]
            if not left:
                break
            for path in left:  # the job's own first
                reasons = self._close(replaced, path, run)
                if reasons is not None:  # another function was first
                    return self._note(replaced, ttl)
        waits = 1 + sum(_led_to(item) - 1 for item in found.values())
        of_run = f"{SAME_RUN} AND {CLOSED}"
        reasons = self._records.transact(
            [
                self._put(replaced, ttl, of_run, {"#run": "run"}, {":run": run}),
                self._add(replaced, sum(replaced.by.values()) - waits, ttl, replaces=1),
                *self._before(replaced),
            ],
        )
        if reasons is not None:
            return has_failed(reasons[0]) and self._note(replaced, ttl)
        logger.info("a later run took a place at a join", extra={"join": replaced.join.key})
        return True

    def _close(
        self, replaced: Replaced, path: Path, run: int
    ) -> Sequence[Mapping[str, Any]] | None:
        """Count nothing more below a place; the reasons when it is no longer of that run."""
        close: dict[str, Any] = {
            "TableName": self._records.table,
            "Key": primary_key(replaced.join.key, _done_key(path)),
            "UpdateExpression": "SET closed = :closed",
            "ExpressionAttributeValues": serialized({":closed": 1}),
        }
        names = {"#run": "run"}
        if path == replaced.path:
            close |= {
                "ConditionExpression": SAME_RUN,
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": serialized({":closed": 1, ":run": run}),
            }
            return self._records.transact([{"Update": close}])
        of_run = f"{SAME_RUN} AND {CLOSED}"
        check = self._check(replaced, _done_key(replaced.path), of_run, names, {":run": run})
        return self._records.transact([check, {"Update": close}])

    def _put(
        self,
        replaced: Replaced,
        ttl: dict[str, Any],
        condition: str,
        names: Mapping[str, str],
        values: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The item of a place: to what its job led."""
        done: dict[str, Any] = {f"{_TO}{to}": count for to, count in replaced.by.items()}
        done |= {"run": replaced.run, "of": replaced.of}
        if replaced.output is not None:
            done["output"] = replaced.output
        if not replaced.path:  # the opener's own
            done["lineage"] = replaced.join.lineage.model_dump_json()
        key = primary_key(replaced.join.key, _done_key(replaced.path))
        own = {"#key": PARTITION_KEY} if "#key" in condition else {}
        return {
            "Put": {
                "TableName": self._records.table,
                "Item": key | serialized(done) | {TTL: ttl},
                "ConditionExpression": condition,
                "ExpressionAttributeNames": {**own, **names},
                "ExpressionAttributeValues": serialized(values),
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    def _add(
        self, replaced: Replaced, change: int, ttl: dict[str, Any], replaces: int = 0
    ) -> dict[str, Any]:
        """Change the number of jobs for which the join waits; at first it is the opener alone."""
        return {
            "Update": {
                "TableName": self._records.table,
                "Key": primary_key(replaced.join.key, _WAITS),
                "UpdateExpression": (
                    "SET #jobs = if_not_exists(#jobs, :itself) + :change, #ttl = :ttl"
                    " ADD changes :replaces"
                ),
                "ExpressionAttributeNames": {"#jobs": "jobs", "#ttl": TTL},
                "ExpressionAttributeValues": serialized(
                    {":itself": 1, ":change": change, ":replaces": replaces}
                )
                | {":ttl": ttl},
            }
        }

    def _before(self, replaced: Replaced) -> Sequence[dict[str, Any]]:
        """That the job before was counted, in the run that led to this place."""
        if not replaced.path:
            return []
        stage, n = replaced.path[-1]
        return [
            self._check(
                replaced,
                _done_key(replaced.path[:-1]),
                f"{LED_HERE} AND {OPEN} AND {SAME_RUN}",
                {"#to": f"{_TO}{stage}", "#run": "run"},
                {":n": n, ":run": replaced.of},
            )
        ]

    def _check(
        self,
        replaced: Replaced,
        item: str,
        condition: str,
        names: Mapping[str, str],
        values: Mapping[str, Any],
    ) -> dict[str, Any]:
        return {
            "ConditionCheck": {
                "TableName": self._records.table,
                "Key": primary_key(replaced.join.key, item),
                "ConditionExpression": condition,
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": serialized(values),
            }
        }

    def _items(self, join_key: str, prefix: str) -> Mapping[str, Item]:
        """By sort key, in its order."""
        found = self._records.below(join_key, prefix)
        return {deserialize(item[SORT_KEY]): item for item in found}


def _items_that_count(path: Path, items: Mapping[str, Item]) -> Iterator[tuple[Path, Item]]:
    """The item of a place and those below it that count, each before what is below.

    By stage, in the order of their names, and in each as they were emitted. Items are left behind
    by runs that another has replaced.
    """
    item = items.get(_done_key(path))
    if item is None:
        return
    yield path, item
    for name in sorted(name for name in item if name.startswith(_TO)):
        for n in range(deserialize(item[name])):
            below = (*path, (name.removeprefix(_TO), n))
            if items.get(_done_key(below), {}).get("of") == item["run"]:
                yield from _items_that_count(below, items)


def _led_to(item: Item) -> int:
    return sum(deserialize(value) for name, value in item.items() if name.startswith(_TO))


def _standing_in(item: Item) -> JoinStanding:
    return JoinStanding(deserialize(item["jobs"]), deserialize(item["changes"]))


def _lineage_in(item: Item) -> Lineage:
    """Of a join's job, from the item of its opener."""
    return Lineage.model_validate_json(deserialize(item["lineage"]))


def _done_key(path: Path) -> str:
    """The sort key of a place; the digest tells stages apart."""
    digest = sha256("/".join(stage for stage, _ in path).encode()).hexdigest()[:12]
    return f"{_DONE}{'.'.join(f'{n:04}' for _, n in path)}#{digest}"
