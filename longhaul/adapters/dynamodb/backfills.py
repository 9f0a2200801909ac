"""Which jobs a backfill has sent: an item under the key that its name would have as a job."""

import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from longhaul.adapters.dynamodb.item import (
    Item,
    deserialize,
    expiry,
    key_of,
    milliseconds,
    primary_key,
    serialize,
    serialized,
)
from longhaul.adapters.dynamodb.reads import Reads
from longhaul.adapters.dynamodb.table import TTL
from longhaul.adapters.errors import code_of
from longhaul.domain.backfill import Backfill
from longhaul.ports import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ITEM: Final = "backfill"

# A command that began after the cancel goes on.
NOT_CANCELLED: Final = "attribute_not_exists(cancelled_at) OR cancelled_at < :began_at"


class DynamoBackfills:
    """`ports.Backfills`."""

    def __init__(
        self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random, most: int
    ) -> None:
        """`most`: how many items an answer of DynamoDB may have."""
        self._client = client
        self._table = table
        self._reads = Reads(client, table, clock, rng, most)

    def note_sent(
        self, key: str, values: Iterable[str], left: int, now: datetime, began_at: datetime
    ) -> bool:
        noted = {":left": left, ":values": set(values), ":began_at": milliseconds(began_at)}
        try:
            self._client.update_item(
                TableName=self._table,
                Key=primary_key(key, _ITEM),
                # A set: what two commands send at once is there, each once.
                UpdateExpression="SET unsent = :left, began_at = :began_at, #ttl = :ttl "
                "ADD sent_values :values",
                ConditionExpression=NOT_CANCELLED,
                ExpressionAttributeNames={"#ttl": TTL},
                ExpressionAttributeValues=serialized(noted) | {":ttl": expiry(now)},
            )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def note_cancel(self, key: str, now: datetime) -> None:
        self._client.update_item(
            TableName=self._table,
            Key=primary_key(key, _ITEM),
            UpdateExpression="SET cancelled_at = :now",
            ExpressionAttributeValues=serialized({":now": milliseconds(now)}),
        )

    def find_backfills(self, keys: Iterable[str]) -> Mapping[str, Backfill]:
        found = self._reads.many(primary_key(key, _ITEM) for key in dict.fromkeys(keys))
        return {
            key_of(item): _backfill(item)
            for item in found
            if "sent_values" in item  # not where a cancel outlived what was sent
        }


def _backfill(item: Item) -> Backfill:
    cancelled_at = item.get("cancelled_at", serialize(-1))
    began_at = item.get("began_at", serialize(0))  # a version before did not note it
    return Backfill(
        key_of(item),
        tuple(sorted(deserialize(item["sent_values"]))),
        deserialize(item["unsent"]),
        is_cancelled=deserialize(cancelled_at) >= deserialize(began_at),
    )
