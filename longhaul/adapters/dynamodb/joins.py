"""Joins of a fan-out: which members have arrived, and with what output.

An item for each member, and one with the set of their places: adding a place twice changes nothing,
so a repeat cannot advance it. Each write is small, however large the group; the outputs are read
once, by the arrival that completes it.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from longhaul.adapters.dynamodb.item import deserialize, expiry, primary_key, serialized
from longhaul.adapters.dynamodb.table import PARTITION_KEY, SORT_KEY, TTL

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ARRIVED = "arrived"
_PLACE = "place#"
_SET_LIVES_LONGER = timedelta(days=5 * 365)


class DynamoJoins:
    """`ports.Joins`."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def arrive(
        self, join_key: str, n: int, size: int, output: str, now: datetime
    ) -> Mapping[int, str] | None:
        """All outputs, by place, when all have arrived; also on a repeat."""
        ttl = expiry(now)
        # The set outlives the outputs, so that the last arrival finds the group complete, and
        # notices what has expired. Without the set, the join would wait for ever, unseen.
        ttl_of_set = expiry(now + _SET_LIVES_LONGER)
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
        return self._outputs(join_key) if len(deserialize(arrived["places"])) >= size else None

    def _outputs(self, join_key: str) -> Mapping[int, str]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="#key = :key AND begins_with(#item, :place)",
            ExpressionAttributeNames={"#key": PARTITION_KEY, "#item": SORT_KEY},
            ExpressionAttributeValues=serialized({":key": join_key, ":place": _PLACE}),
        )
        return {
            int(deserialize(item[SORT_KEY]).removeprefix(_PLACE)): deserialize(item["output"])
            for page in pages
            for item in page["Items"]
        }
