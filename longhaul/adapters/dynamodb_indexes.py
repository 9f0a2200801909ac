"""The leases table's indexes. They hold keys only and are a little late: whoever finds a key here reads its row."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from longhaul.adapters import lease_item
from longhaul.domain.lease import OpenKind, State

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Each is named after the attribute that it is about.
OPEN_INDEX = "open"
ROOT_INDEX = "root"
ENDED_INDEX = "ended"
_PAGE = 100


class Indexes:
    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def open_keys(self, stage: str, what: OpenKind) -> Iterator[str]:
        return self._keys(OPEN_INDEX, f"{stage}#{what}")

    def keys_of_root(self, root: str) -> Iterator[str]:
        return self._keys(ROOT_INDEX, root)

    def ended_keys(self, stage: str, state: State, until: datetime) -> Iterator[tuple[datetime, str]]:
        """A page at a time: who wants ten reads no more than a hundred keys."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=ENDED_INDEX,
            KeyConditionExpression="ended = :ended AND settled_at <= :until",
            ExpressionAttributeValues={
                ":ended": {"S": f"{stage}#{state.value}"},
                ":until": lease_item.encode("settled_at", until),
            },
            ScanIndexForward=False,
            PaginationConfig={"PageSize": _PAGE},
        )
        for page in pages:
            for item in page["Items"]:
                yield lease_item.decode("settled_at", item["settled_at"]), item["key"]["S"]

    def _keys(self, index: str, value: str) -> Iterator[str]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=index,
            KeyConditionExpression="#value = :value",
            ExpressionAttributeNames={"#value": index},
            ExpressionAttributeValues={":value": {"S": value}},
        )
        for page in pages:
            for item in page["Items"]:
                yield item["key"]["S"]
