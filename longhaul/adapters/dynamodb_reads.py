"""Many items of the table at once, by their keys."""

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from longhaul.ports import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_BATCH_GET = 100


class Reads:
    def __init__(self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._rng = rng

    def items(self, keys: Iterable[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Those that exist, in no order; strongly consistent, up to 100 in one call. What DynamoDB leaves unprocessed is asked for again."""
        wanted = list(keys)
        while wanted:
            batch, wanted = wanted[:_BATCH_GET], wanted[_BATCH_GET:]
            answer = self._client.batch_get_item(RequestItems={self._table: {"Keys": batch, "ConsistentRead": True}})
            yield from answer["Responses"].get(self._table, [])
            left = answer.get("UnprocessedKeys", {}).get(self._table)
            if left:
                wanted = [dict(key) for key in left["Keys"]] + wanted
                self._clock.sleep(self._rng.uniform(0.05, 0.2))
