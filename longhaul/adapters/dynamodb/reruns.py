"""What was sent to run a job again: an item beside the row of the job that runs."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from longhaul.adapters.dynamodb.item import milliseconds, primary_key, serialize, serialized
from longhaul.adapters.dynamodb.table import PARTITION_KEY, TTL
from longhaul.adapters.errors import code_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ITEM: Final = "rerun"
_LIVES: Final = timedelta(days=14)
"""As long as a queue keeps the message."""

# The clauses of the condition, each with what it lets through.
ABSENT = "attribute_not_exists(#key)"
SAME_WORK = "fingerprint = :fingerprint"  # sent twice, it runs once
OTHER_RUN = "of_run <> :run"  # the run that was asked for has begun, and ended
CANCELLED = "taken_at < :cancelled_at"  # what was asked for will not run
EXPIRED = "taken_at < :expired_at"  # DynamoDB deletes what has expired within days


class DynamoReruns:
    """`ports.Reruns`."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def take_place(
        self, key: str, run: int, fingerprint: str, now: datetime, cancelled_at: datetime | None
    ) -> bool:
        at, ttl = milliseconds(now), int((now + _LIVES).timestamp())
        values: dict[str, Any] = {":fingerprint": fingerprint, ":run": run}
        values[":expired_at"] = milliseconds(now - _LIVES)
        clauses = [ABSENT, SAME_WORK, OTHER_RUN, EXPIRED]
        if cancelled_at is not None:
            values[":cancelled_at"] = milliseconds(cancelled_at)
            clauses.append(CANCELLED)
        item = {"fingerprint": fingerprint, "of_run": run, "taken_at": at}
        try:
            self._client.put_item(
                TableName=self._table,
                Item=primary_key(key, _ITEM) | serialized(item) | {TTL: serialize(ttl)},
                ConditionExpression=" OR ".join(clauses),
                ExpressionAttributeNames={"#key": PARTITION_KEY},
                ExpressionAttributeValues=serialized(values),
            )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True
