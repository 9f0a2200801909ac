"""Reads of rows, strongly consistent. AWS's time is heard from each answer."""

import random
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from longhaul.core.errors import UnreadableRowError
from longhaul.core.lease import Lease
from longhaul.core.ports import Clock, Rows
from longhaul.core.store import item as items

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BATCH_GET = 100
"""DynamoDB's maximum of keys in a call."""


# A `Date` is in whole seconds, and the answer took some time to come.
_RIGHT_WITHIN = timedelta(seconds=2)


class AwsTime:
    """A host's clock, set right by the `Date` of the answers that it is shown.

    When a message was sent is told by SQS. A cancel or the end of a run is compared with that, so
    it must not be told by a laptop's clock.

    A clock that agrees with the answer is left alone: it is the finer one. One that does not is set
    to the answer's full second, so that it is rather behind than ahead: what was sent in the second
    of a cancel counts as sent after it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = timedelta()

    def heard(self, answer: Mapping[str, Any]) -> None:
        """Note the time in an answer that has just come; one without a `Date` changes nothing."""
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date is not None:
            said, here = parsedate_to_datetime(date), self._clock.now()
            is_right = said <= here < said + _RIGHT_WITHIN
            self._offset = timedelta() if is_right else said - here

    def now(self) -> datetime:
        return self._clock.now() + self._offset


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
