"""The items of the leases table, whatever they are: read strongly, and written under a condition.

A conflict with another transaction is over in milliseconds, and tried again with jitter. AWS's time
is heard from the answers. What an item has is its feature's: a row, a stage's slots, a join, a
backfill, an error that is counted, a notice that is owed.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from longhaul.core.aws_errors import code_of, is_raised_again
from longhaul.core.ports import Clock
from longhaul.core.settlement import IN_A_ROW, MAX_ERRORS
from longhaul.core.store.item import (
    Item,
    deserialize,
    expiry,
    milliseconds,
    primary_key,
    serialize,
    serialized,
)
from longhaul.core.store.table import OPEN, PARTITION_KEY, SORT_KEY, TTL

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


T = TypeVar("T")

BATCH_GET = 100
"""DynamoDB's maximum of keys in a call."""

TRIES = 8
_CONFLICTS = ("TransactionConflictException", "TransactionCanceledException")

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


class Records:
    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        clock: Clock,
        rng: random.Random,
        *,
        most: int = BATCH_GET,
    ) -> None:
        """`most`: how many items an answer of DynamoDB may have, `BATCH_GET` at most."""
        self.table = table
        self.rng = rng
        self._most = most
        self._client = client
        self._clock = clock
        self._aws_time = AwsTime(clock)

    def aws_time(self) -> datetime:
        return self._aws_time.now()

    def get(self, key: Mapping[str, Any]) -> Item | None:
        answer = self._client.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        self._aws_time.heard(answer)
        return answer.get("Item")

    def many(self, keys: Iterable[dict[str, Any]]) -> Iterator[Item]:
        """The items that exist, in no order, `most` in each call.

        Keys that DynamoDB leaves unprocessed are requested again.
        """
        wanted = list(keys)
        while wanted:
            batch, wanted = wanted[: self._most], wanted[self._most :]
            answer = self._client.batch_get_item(
                RequestItems={self.table: {"Keys": batch, "ConsistentRead": True}}
            )
            self._aws_time.heard(answer)
            left = answer.get("UnprocessedKeys", {}).get(self.table)
            found = answer["Responses"].pop(self.table, [])
            while found:
                yield found.pop(0)
            if left:
                wanted = [dict(key) for key in left["Keys"]] + wanted
                self._clock.sleep(self.rng.uniform(0.05, 0.2))

    def below(self, key: str, prefix: str) -> Iterator[Item]:
        """The items of a partition whose sort keys begin so, in their order."""
        return self.query(
            KeyConditionExpression="#key = :key AND begins_with(#item, :prefix)",
            ExpressionAttributeNames={"#key": PARTITION_KEY, "#item": SORT_KEY},
            ExpressionAttributeValues=serialized({":key": key, ":prefix": prefix}),
            ConsistentRead=True,
        )

    def open(self, why: str) -> Iterator[Item]:
        """The keys of what is in the index of what is left to do: a little late."""
        return self.query(
            IndexName=OPEN.name,
            KeyConditionExpression="#open = :why",
            ExpressionAttributeNames={"#open": OPEN.name},
            ExpressionAttributeValues=serialized({":why": why}),
        )

    def query(self, **request: Any) -> Iterator[Item]:  # noqa: ANN401 - Query's
        pages = self._client.get_paginator("query").paginate(TableName=self.table, **request)
        return (item for page in pages for item in page["Items"])

    def put(self, **request: Any) -> None:  # noqa: ANN401 - PutItem's
        self._outlast(lambda: self._client.put_item(TableName=self.table, **request))

    def update(self, **request: Any) -> Item:  # noqa: ANN401 - UpdateItem's
        """One update; returns the attributes that were asked for."""
        answer = self._outlast(lambda: self._client.update_item(TableName=self.table, **request))
        return answer.get("Attributes", {})

    def update_if(self, condition: str, **request: Any) -> Item | None:  # noqa: ANN401 - as above
        """The same under a condition; None, with nothing changed, where it does not hold."""
        try:
            return self.update(ConditionExpression=condition, **request)
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return None

    def transact(self, items: Sequence[Any]) -> Sequence[Mapping[str, Any]] | None:
        """Write all items or none; the reasons, one for each, when a condition has failed."""
        try:
            self._outlast(lambda: self._client.transact_write_items(TransactItems=items))
        except ClientError as error:
            if not (reasons := _reasons(error)):
                raise
            return reasons
        return None

    def _outlast(self, write: Callable[[], T]) -> T:
        """What the write returns; errors that are no conflict are raised as they are."""
        for tried in range(1, TRIES):
            try:
                return write()
            except ClientError as error:
                if code_of(error) not in _CONFLICTS or _reasons(error):
                    raise
            self._clock.sleep(self.rng.uniform(0, 0.05 * 2 ** (tried - 1)))  # full jitter
        return write()


def _reasons(error: ClientError) -> Sequence[Mapping[str, Any]]:
    """One for each part of a transaction in which a condition has failed; else none."""
    reasons: Sequence[Mapping[str, Any]] = error.response.get("CancellationReasons", ())
    return reasons if any(map(has_failed, reasons)) else ()


def has_failed(reason: Mapping[str, Any]) -> bool:
    """Whether a part of a cancelled transaction has a condition that does not hold."""
    return reason.get("Code") == "ConditionalCheckFailed"


_TROUBLE = "trouble#"


class DynamoTroubles:
    """`ports.Troubles`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def counts(self, error: Exception) -> bool:
        return is_raised_again(error)

    def is_hopeless(self, key: str, place: str, error: Exception, now: datetime) -> bool:
        if not is_raised_again(error):
            return False
        try:
            return self._count(key, place, type(error).__name__, now) >= MAX_ERRORS
        except (ClientError, BotoCoreError):
            return False  # the next error is counted

    def _count(self, key: str, place: str, error: str, now: datetime) -> int:
        """Errors in a row, with this one. A retry after a lost answer counts it twice."""
        item_key = primary_key(key, f"{_TROUBLE}{place}")
        values = {":now": serialize(milliseconds(now)), ":ttl": expiry(now)}
        values |= {":one": serialize(1), ":since": serialize(milliseconds(now - IN_A_ROW))}
        in_a_row = self._records.update_if(
            "failed_at >= :since",
            Key=item_key,
            UpdateExpression="SET failed_at = :now, #ttl = :ttl ADD tally :one",
            ExpressionAttributeNames={"#ttl": TTL},
            ExpressionAttributeValues=values,
            ReturnValues="ALL_NEW",
        )
        if in_a_row is not None:
            return int(deserialize(in_a_row["tally"]))
        first = {"failed_at": values[":now"], "tally": serialize(1), TTL: expiry(now)}
        self._records.put(Item=item_key | first | {"error_name": serialize(error)})
        return 1
