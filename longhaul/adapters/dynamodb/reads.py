"""Reads of rows, strongly consistent. AWS's time is heard from each answer."""

import random
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from longhaul.adapters.aws_time import AwsTime
from longhaul.adapters.dynamodb import item as items
from longhaul.domain.errors import UnreadableRowError
from longhaul.domain.lease import Lease
from longhaul.ports import Clock, Rows

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BATCH_GET = 100
"""DynamoDB's maximum of keys in a call."""


class Reads:
    def __init__(
        self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random, most: int
    ) -> None:
        """`most`: rows in an answer, `BATCH_GET` at most."""
        self._most = most
        self._client = client
        self._table = table
        self._clock = clock
        self._rng = rng
        self._aws_time = AwsTime(clock)

    def aws_time(self) -> datetime:
        return self._aws_time.now()

    def lease(self, key: str) -> Lease | None:
        answer = self._client.get_item(
            TableName=self._table, Key=items.lease_key(key), ConsistentRead=True
        )
        self._aws_time.heard(answer)
        return items.from_item(answer["Item"]) if "Item" in answer else None

    def many(self, keys: Iterable[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The items that exist, in no order; strongly consistent, `most` in each call.

        Keys that DynamoDB leaves unprocessed are requested again.
        """
        wanted = list(keys)
        while wanted:
            batch, wanted = wanted[: self._most], wanted[self._most :]
            answer = self._client.batch_get_item(
                RequestItems={self._table: {"Keys": batch, "ConsistentRead": True}}
            )
            self._aws_time.heard(answer)
            left = answer.get("UnprocessedKeys", {}).get(self._table)
            found = answer["Responses"].pop(self._table, [])
            while found:
                yield found.pop(0)
            if left:
                wanted = [dict(key) for key in left["Keys"]] + wanted
                self._clock.sleep(self._rng.uniform(0.05, 0.2))


def rows_of(found: Iterable[Mapping[str, Any]]) -> Rows:
    """Each item by itself: one that cannot be read leaves the others readable."""
    readable: dict[str, Lease] = {}
    unreadable = set()
    for item in found:
        try:
            readable[items.key_of(item)] = items.from_item(item)
        except UnreadableRowError as error:
            unreadable.add(error.key)
    return Rows(readable, unreadable)
