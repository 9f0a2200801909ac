"""Where a fan-out comes together: who has arrived, and with what output.

An item for each that arrived, and one with the set of their places: adding a place twice changes nothing, so no repeat can advance it. Each write is small,
however large the group; what was published is read once, by whoever completes it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from longhaul.adapters import lease_item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ARRIVED = "arrived"
_PLACE = "place#"


class DynamoJoins:
    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def arrive(self, join_key: str, n: int, size: int, output: str, now: datetime) -> Mapping[int, str] | None:
        """Note the `n`th of `size`. All outputs, by place, when everybody is there; also to those who come again."""
        ttl = lease_item.ttl(now)
        # The output first: a place in the set means that its output can be read.
        self._client.put_item(
            TableName=self._table,
            Item={"key": {"S": join_key}, "item": {"S": f"{_PLACE}{n:05}"}, "output": {"S": output}, "ttl": ttl},
        )
        arrived = self._client.update_item(
            TableName=self._table,
            Key={"key": {"S": join_key}, "item": {"S": _ARRIVED}},
            UpdateExpression="SET #ttl = :ttl ADD places :place",
            ExpressionAttributeNames={"#ttl": "ttl"},
            ExpressionAttributeValues={":place": {"NS": [str(n)]}, ":ttl": ttl},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        return self._outputs(join_key) if len(arrived["places"]["NS"]) >= size else None

    def _outputs(self, join_key: str) -> Mapping[int, str]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="#key = :key AND begins_with(#item, :place)",
            ExpressionAttributeNames={"#key": "key", "#item": "item"},
            ExpressionAttributeValues={":key": {"S": join_key}, ":place": {"S": _PLACE}},
        )
        return {
            int(item["item"]["S"].removeprefix(_PLACE)): item["output"]["S"] for page in pages for item in page["Items"]
        }
