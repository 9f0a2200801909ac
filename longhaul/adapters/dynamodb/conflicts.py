"""Writes that meet a transaction on the same item try again: it is over in milliseconds."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of, retrying
from longhaul.ports import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

TRIES = 8


class Conflicts:
    """Tries again with full jitter."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng

    def tries(self) -> Iterator[bool]:
        """One round for each try; yields whether it is the last one."""
        return retrying(
            TRIES, self._clock.sleep, lambda n: self._rng.uniform(0, 0.05 * 2 ** (n - 1))
        )

    def transact(
        self, client: "DynamoDBClient", items: Sequence[Any]
    ) -> Sequence[Mapping[str, Any]] | None:
        """Write all items or none; the reasons, one for each, when a condition has failed."""
        for is_last in self.tries():
            try:
                client.transact_write_items(TransactItems=items)
            except ClientError as error:
                if code_of(error) != "TransactionCanceledException":
                    raise
                reasons: Sequence[Mapping[str, Any]] = error.response["CancellationReasons"]
                if any(map(has_failed, reasons)):
                    return reasons
                if is_last:
                    raise
            else:
                return None
        raise AssertionError("the last try returns or raises")

    def outlast(self, write: Callable[[], T]) -> T:
        """What the write of a single item returns; its other errors are raised as they are."""
        for is_last in self.tries():
            try:
                return write()
            except ClientError as error:
                if code_of(error) != "TransactionConflictException" or is_last:
                    raise
        raise AssertionError("the last try returns or raises")


def has_failed(reason: Mapping[str, Any]) -> bool:
    """Whether a part of a cancelled transaction has a condition that does not hold."""
    return reason.get("Code") == "ConditionalCheckFailed"
