"""Conditional writes: one that fails becomes LeaseChangedError with the row that won.

A conflict with another transaction is over in milliseconds, and tried again with jitter. Other
errors are raised as they are.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of, retrying
from longhaul.core.errors import LeaseChangedError, NoFreeSlotError
from longhaul.core.lease import Lease
from longhaul.core.ports import Clock
from longhaul.core.store import item as items

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

TRIES = 8


class Conflicts:
    """Writes that meet a transaction on the same item try again, with full jitter."""

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


# Some names are DynamoDB's own words.
_PLACEHOLDERS = {"#key": "key", "#state": "state", "#output": "output", "#ttl": "ttl"}


class ConditionalWrites:
    def __init__(
        self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random
    ) -> None:
        self._client = client
        self._table = table
        self._conflicts = Conflicts(clock, rng)

    def put(self, request: Mapping[str, Any]) -> None:
        """One conditional put."""
        self._outlast(
            lambda: self._client.put_item(**request, ReturnValuesOnConditionCheckFailure="ALL_OLD")
        )

    def update(self, request: Mapping[str, Any], returns: str = "NONE") -> Mapping[str, Any]:
        """One conditional update; returns the attributes that were asked for."""
        answer = self._outlast(
            lambda: self._client.update_item(
                **request,
                ReturnValues=returns,  # type: ignore[arg-type]  # a Literal in the stubs
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        )
        return answer.get("Attributes", {})

    def transact(self, row: dict[str, Any], *others: dict[str, Any]) -> None:
        """Write the row and the others, or nothing.

        Of the others only a slots' counter has a condition: NoFreeSlotError when it fails.
        """
        ((kind, write),) = row.items()
        of_row = {kind: write | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}
        reasons = self._conflicts.transact(self._client, [of_row, *others])
        if reasons is None:
            return
        if has_failed(reasons[0]):
            raise LeaseChangedError(_winner(reasons[0]))
        raise NoFreeSlotError

    def _outlast(self, write: Callable[[], T]) -> T:
        try:
            return self._conflicts.outlast(write)
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            raise LeaseChangedError(_winner(error.response)) from error


def condition(
    clauses: Iterable[str], names: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a conditional write: DynamoDB refuses empty and unused ones."""
    condition = " AND ".join(clauses)
    used = {mark: name for mark, name in _PLACEHOLDERS.items() if mark in condition}
    arguments: dict[str, Any] = {"ConditionExpression": condition}
    if all_names := {**names, **used}:
        arguments["ExpressionAttributeNames"] = all_names
    if values:
        arguments["ExpressionAttributeValues"] = values
    return arguments


def own_write(error: LeaseChangedError, is_ours: Callable[[Lease], bool]) -> Lease:
    """The row that won, if this very write made it: the SDK retries after a lost answer.

    Raises:
        LeaseChangedError: another write won.
    """
    if error.current is None or not is_ours(error.current):
        raise error
    return error.current


def _winner(response: Any) -> Lease | None:  # noqa: ANN401 - an error response, or a reason
    item = response.get("Item")
    return items.from_item(item) if item else None


def has_failed(reason: Mapping[str, Any]) -> bool:
    """Whether a part of a cancelled transaction has a condition that does not hold."""
    return reason.get("Code") == "ConditionalCheckFailed"
