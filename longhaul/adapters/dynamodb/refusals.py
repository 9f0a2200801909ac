"""Refused messages: an item for each job that became a dead letter before it had a row."""

import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from longhaul.adapters.dynamodb.item import (
    deserialize,
    expiry,
    key_of,
    milliseconds,
    primary_key,
    serialize,
    serialized,
    time_of,
)
from longhaul.adapters.dynamodb.reads import Reads
from longhaul.adapters.dynamodb.table import TTL
from longhaul.adapters.errors import code_of
from longhaul.domain.dead_letter import Reason, Refusal
from longhaul.ports import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ITEM = "refusal"


class DynamoRefusals:
    """`ports.Refusals`."""

    def __init__(
        self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random, most: int
    ) -> None:
        """`most`: how many items an answer of DynamoDB may have."""
        self._client = client
        self._table = table
        self._reads = Reads(client, table, clock, rng, most)

    def note_refusal(self, key: str, reason: Reason, now: datetime) -> None:
        values = {"refused_at": milliseconds(now), "kind": reason.kind, "reason": reason.reason}
        item = primary_key(key, _ITEM) | serialized(values) | {TTL: expiry(now)}
        self._client.put_item(TableName=self._table, Item=item)

    def find_refusals(self, keys: Iterable[str]) -> Mapping[str, Refusal]:
        found = self._reads.many(primary_key(key, _ITEM) for key in dict.fromkeys(keys))
        return {
            key_of(item): Refusal(
                deserialize(item["kind"]), deserialize(item["reason"]), time_of(item["refused_at"])
            )
            for item in found
            if "kind" in item  # what was sent again has none
        }

    def was_refused(self, key: str) -> bool:
        answer = self._client.get_item(
            TableName=self._table, Key=primary_key(key, _ITEM), ConsistentRead=True
        )
        return "Item" in answer

    def forget_refusal(self, key: str, refusal: Refusal) -> None:
        try:
            self._client.update_item(
                TableName=self._table,
                Key=primary_key(key, _ITEM),
                # Not deleted: nobody has that right.
                UpdateExpression="REMOVE kind, reason",
                ConditionExpression="refused_at = :at",
                ExpressionAttributeValues={":at": serialize(milliseconds(refusal.refused_at))},
            )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise  # else it was refused once more, or has expired
