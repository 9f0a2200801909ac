"""Errors of our own code, counted: an item for each job and place, beside the job's row."""

from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError

from longhaul.core.aws_errors import is_raised_again
from longhaul.core.settlement import IN_A_ROW, MAX_ERRORS
from longhaul.core.store.item import (
    deserialize,
    expiry,
    milliseconds,
    primary_key,
    serialize,
)
from longhaul.core.store.records import Records
from longhaul.core.store.table import TTL

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
