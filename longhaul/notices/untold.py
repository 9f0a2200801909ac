"""Notices that could not be sent: an item for each, in the index of what is left to do."""

import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from longhaul.core.ports import Clock
from longhaul.core.store.item import (
    deserialize,
    milliseconds,
    primary_key,
    serialize,
    serialized,
    time_of,
)
from longhaul.core.store.reads import Reads
from longhaul.core.store.table import OPEN, PARTITION_KEY, SORT_KEY, TTL
from longhaul.notices.notice import Notice, Untold

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_KEPT: Final = timedelta(days=14)
"""Longer than any is tried, also where no sweep runs for some days."""


class DynamoUntold:
    """`ports.UntoldNotices`."""

    def __init__(
        self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random, most: int
    ) -> None:
        """`most`: how many items an answer of DynamoDB may have."""
        self._client = client
        self._table = table
        self._rng = rng
        self._reads = Reads(client, table, clock, rng, most)

    def owe(self, stage: str, notice: Notice, now: datetime) -> None:
        values = {
            "notice": json.dumps(asdict(notice)),
            "since": milliseconds(now),
            OPEN.name: _left_to_do(stage),
            TTL: int((now + _KEPT).timestamp()),
        }
        item = primary_key(_key(stage), notice.id) | serialized(values)
        self._client.put_item(TableName=self._table, Item=item)

    def owed(self, stage: str) -> Iterator[Untold]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=OPEN.name,
            KeyConditionExpression="#open = :open",
            ExpressionAttributeNames={"#open": OPEN.name},
            ExpressionAttributeValues={":open": serialize(_left_to_do(stage))},
        )
        keys = [
            {PARTITION_KEY: item[PARTITION_KEY], SORT_KEY: item[SORT_KEY]}
            for page in pages
            for item in page["Items"]
        ]
        self._rng.shuffle(keys)
        for item in self._reads.many(keys):
            if OPEN.name in item:  # the index is a little late
                notice = Notice(**json.loads(deserialize(item["notice"])))
                yield Untold(stage, notice, time_of(item["since"]))

    def strike(self, untold: Untold) -> None:
        self._client.update_item(
            TableName=self._table,
            Key=primary_key(_key(untold.stage), untold.notice.id),
            # Not deleted: nobody has that right.
            UpdateExpression="REMOVE #open, notice",
            ExpressionAttributeNames={"#open": OPEN.name},
        )


def _key(stage: str) -> str:
    return f"notices#{stage}"


def _left_to_do(stage: str) -> str:
    return f"{stage}#NOTICE"
