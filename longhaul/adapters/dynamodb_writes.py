"""How one conditional write, or one of a row with its stage's counter, is made: expressions, conflicts, and the row that won."""

import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.adapters import lease_item
from longhaul.domain.errors import LeaseChangedError, NoFreeSlotError
from longhaul.domain.lease import Lease
from longhaul.ports import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CONFLICT_TRIES = 8

# Some names are DynamoDB's own words; the placeholders stand for themselves everywhere.
_NAMES = {"#state": "state", "#output": "output"}


class Writes:
    """Makes writes, and translates what DynamoDB says of them.

    A failed condition becomes LeaseChangedError with the row that won, or NoFreeSlotError for the counter; a conflict with another transaction is tried again,
    with jitter; all else is raised as it is.
    """

    def __init__(self, client: "DynamoDBClient", clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng

    def write(self, update: Mapping[str, Any], returns: str = "NONE") -> Mapping[str, Any]:
        """One conditional update. A transaction that holds the row meanwhile is over in milliseconds: tried again, with jitter."""
        for tries in range(CONFLICT_TRIES):
            try:
                answer = self._client.update_item(
                    **_with_names(update),
                    ReturnValues=returns,  # type: ignore[arg-type]  # a Literal in the stubs
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code == "ConditionalCheckFailedException":
                    raise LeaseChangedError(_won(error.response)) from error
                if code != "TransactionConflictException" or tries == CONFLICT_TRIES - 1:
                    raise
                self._clock.sleep(self._rng.uniform(0, 0.05 * 2**tries))
            else:
                return answer.get("Attributes", {})
        raise AssertionError("the last try returns or raises")

    def transact(self, row: dict[str, Any], *others: dict[str, Any]) -> None:
        """Write the row and the others, or nothing; of those only a slots' counter has a condition. Conflicts with other transactions are tried again, with jitter."""
        ((kind, write),) = row.items()
        write = _with_names(write) if kind == "Update" else write
        items: Any = [{kind: write | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}, *others]
        for tries in range(CONFLICT_TRIES):
            try:
                self._client.transact_write_items(TransactItems=items)
            except ClientError as error:
                if error.response["Error"]["Code"] != "TransactionCanceledException":
                    raise
                of_row, *of_others = error.response["CancellationReasons"]
                if of_row.get("Code") == "ConditionalCheckFailed":
                    raise LeaseChangedError(_won(of_row)) from error
                if any(reason.get("Code") == "ConditionalCheckFailed" for reason in of_others):
                    raise NoFreeSlotError from error
                if tries == CONFLICT_TRIES - 1:
                    raise
                self._clock.sleep(self._rng.uniform(0, 0.05 * 2**tries))
            else:
                return


def expression(sets: Mapping[str, Any], removes: Iterable[str], add: Mapping[str, int]) -> dict[str, Any]:
    """An UpdateExpression with a placeholder per name and value, since many of our names are DynamoDB's own words."""
    names = {f"#n_{name}": name for name in (*sets, *removes, *add)}
    values: dict[str, Any] = {f":v_{name}": value for name, value in sets.items()}
    parts = []
    if sets:
        parts.append("SET " + ", ".join(f"#n_{name} = :v_{name}" for name in sets))
    if removes := list(removes):
        parts.append("REMOVE " + ", ".join(f"#n_{name}" for name in removes))
    if add:
        parts.append("ADD " + ", ".join(f"#n_{name} :a_{name}" for name in add))
        values |= {f":a_{name}": {"N": str(by)} for name, by in add.items()}
    return {"UpdateExpression": " ".join(parts), "ExpressionAttributeNames": names, "ExpressionAttributeValues": values}


def _with_names(update: Mapping[str, Any]) -> dict[str, Any]:
    """Add the placeholders that the condition uses: DynamoDB refuses unused ones."""
    condition = update["ConditionExpression"]
    used = {placeholder: name for placeholder, name in _NAMES.items() if placeholder in condition}
    return {**update, "ExpressionAttributeNames": update["ExpressionAttributeNames"] | used}


def own_write(error: LeaseChangedError, wanted: Lease, *fields: str) -> Lease:
    """The row that won, if it has what this write was to write: then it was our own, come back as the SDK's retry after a lost answer.

    Raises:
        LeaseChangedError: somebody else's write won.
    """
    current = error.current
    if current is None or current.id != wanted.id or any(getattr(current, f) != getattr(wanted, f) for f in fields):
        raise error
    return current


def _won(response: Any) -> Lease | None:  # noqa: ANN401 - an error response or a cancellation reason
    item = response.get("Item")
    return lease_item.from_item(item) if item else None
