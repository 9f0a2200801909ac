"""Joins: for how many jobs each still waits, and what has arrived.

An item has the number, and one more for each job that succeeded says what took its place. Both are
one transaction, so a repeat changes nothing. A job is counted if the one before it was, and led to
it: of a later run that leads to more, the rest does not count. Each write is small, however many
jobs there are; the outputs are read once, by the job that completes them.
"""

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger

from longhaul.adapters.dynamodb.conflicts import Conflicts, has_failed
from longhaul.adapters.dynamodb.item import deserialize, expiry, primary_key, serialized
from longhaul.adapters.dynamodb.table import PARTITION_KEY, SORT_KEY, TTL
from longhaul.domain.follow_ons import Replaced
from longhaul.ports import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

logger = Logger(child=True)

_WAITS = "waits"
_DONE = "done#"
_TO = "to_"
_ARRIVED = "arrived"
_PLACE = "place#"
_LIVES = timedelta(days=5 * 365)
"""Beside the row's 120 days: a job may come late, and a join must not wait for what is forgotten.
"""


class DynamoJoins:
    """`ports.Joins`."""

    def __init__(
        self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random
    ) -> None:
        self._client = client
        self._table = table
        self._conflicts = Conflicts(clock, rng)

    def note_success(self, replaced: Replaced, now: datetime) -> Sequence[str] | None:
        """See `ports.Joins`."""
        key = replaced.join.key
        if self._note(key, replaced, expiry(now + _LIVES)):
            answer = self._client.get_item(
                TableName=self._table, Key=primary_key(key, _WAITS), ConsistentRead=True
            )
            if deserialize(answer["Item"]["jobs"]) == 0:
                done = self._items(key, _DONE)
                return [deserialize(item["output"]) for item in done if "output" in item]
        return None

    def _note(self, key: str, replaced: Replaced, ttl: dict[str, Any]) -> bool:
        """Write what takes the job's place, once; whether it is written, now or before."""
        done: dict[str, Any] = {f"{_TO}{to}": count for to, count in replaced.by.items()}
        if replaced.output is not None:
            done["output"] = replaced.output
        writes: list[Any] = [
            {
                "Put": {
                    "TableName": self._table,
                    "Item": primary_key(key, _done(replaced.path)) | serialized(done) | {TTL: ttl},
                    "ConditionExpression": "attribute_not_exists(#key)",
                    "ExpressionAttributeNames": {"#key": PARTITION_KEY},
                }
            },
            {
                "Update": {
                    "TableName": self._table,
                    "Key": primary_key(key, _WAITS),
                    "UpdateExpression": (
                        "SET #jobs = if_not_exists(#jobs, :itself) + :change, #ttl = :ttl"
                    ),
                    "ExpressionAttributeNames": {"#jobs": "jobs", "#ttl": TTL},
                    "ExpressionAttributeValues": serialized(
                        {":itself": 1, ":change": sum(replaced.by.values()) - 1}
                    )
                    | {":ttl": ttl},
                }
            },
        ]
        if replaced.path:
            stage, n = replaced.path[-1]
            writes.append(
                {
                    "ConditionCheck": {
                        "TableName": self._table,
                        "Key": primary_key(key, _done(replaced.path[:-1])),
                        "ConditionExpression": "#to > :n",
                        "ExpressionAttributeNames": {"#to": f"{_TO}{stage}"},
                        "ExpressionAttributeValues": serialized({":n": n}),
                    }
                }
            )
        reasons = self._conflicts.transact(self._client, writes)
        # Of a repeat the first condition does not hold.
        if reasons is None or has_failed(reasons[0]):
            return True
        logger.info("a join does not wait for this job", extra={"join": key})
        return False

    def arrive(
        self, join_key: str, n: int, size: int, output: str, now: datetime
    ) -> Mapping[int, str] | None:
        """All outputs, by place, when all have arrived; also on a repeat.

        An item for each member, and one with the set of their places.
        """
        ttl = expiry(now)
        # The set outlives the outputs, so that the last arrival finds the group complete, and
        # notices what has expired. Without the set, the join would wait for ever, unseen.
        ttl_of_set = expiry(now + _LIVES)
        # The output first: a place in the set means that its output can be read.
        self._client.put_item(
            TableName=self._table,
            Item=primary_key(join_key, f"{_PLACE}{n:05}")
            | serialized({"output": output})
            | {TTL: ttl},
        )
        arrived = self._client.update_item(
            TableName=self._table,
            Key=primary_key(join_key, _ARRIVED),
            UpdateExpression="SET #ttl = :ttl ADD places :place",
            ExpressionAttributeNames={"#ttl": TTL},
            ExpressionAttributeValues=serialized({":place": {n}}) | {":ttl": ttl_of_set},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        if len(deserialize(arrived["places"])) < size:
            return None
        return {
            int(deserialize(item[SORT_KEY]).removeprefix(_PLACE)): deserialize(item["output"])
            for item in self._items(join_key, _PLACE)
        }

    def _items(self, join_key: str, prefix: str) -> Sequence[Mapping[str, Any]]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="#key = :key AND begins_with(#item, :prefix)",
            ExpressionAttributeNames={"#key": PARTITION_KEY, "#item": SORT_KEY},
            ExpressionAttributeValues=serialized({":key": join_key, ":prefix": prefix}),
        )
        return [item for page in pages for item in page["Items"]]


def _done(path: Sequence[tuple[str, int]]) -> str:
    """The sort key of a place. Places sort as they were emitted; the digest tells stages apart."""
    digest = sha256("/".join(stage for stage, _ in path).encode()).hexdigest()[:12]
    return f"{_DONE}{'.'.join(f'{n:04}' for _, n in path)}#{digest}"
