"""Which jobs a backfill has sent: an item under the key that its name would have as a job."""

import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from longhaul.adapters.dynamodb.item import (
    deserialize,
    expiry,
    key_of,
    primary_key,
    serialized,
)
from longhaul.adapters.dynamodb.reads import Reads
from longhaul.adapters.dynamodb.table import TTL
from longhaul.domain.backfill import Backfill
from longhaul.ports import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ITEM: Final = "backfill"


class DynamoBackfills:
    """`ports.Backfills`."""

    def __init__(
        self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random, most: int
    ) -> None:
        """`most`: how many items an answer of DynamoDB may have."""
        self._client = client
        self._table = table
        self._reads = Reads(client, table, clock, rng, most)

    def note_sent(self, key: str, values: Iterable[str], left: int, now: datetime) -> None:
        self._client.update_item(
            TableName=self._table,
            Key=primary_key(key, _ITEM),
            # A set: what two commands send at once is there, each once.
            UpdateExpression="SET unsent = :left, #ttl = :ttl ADD sent_values :values",
            ExpressionAttributeNames={"#ttl": TTL},
            ExpressionAttributeValues=serialized({":left": left, ":values": set(values)})
            | {":ttl": expiry(now)},
        )

    def find_backfills(self, keys: Iterable[str]) -> Mapping[str, Backfill]:
        found = self._reads.many(primary_key(key, _ITEM) for key in dict.fromkeys(keys))
        return {
            key_of(item): Backfill(
                key_of(item),
                tuple(sorted(deserialize(item["sent_values"]))),
                deserialize(item["unsent"]),
            )
            for item in found
        }
