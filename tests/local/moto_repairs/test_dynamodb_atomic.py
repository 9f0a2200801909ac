from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.dynamodb.models.table import Table

from local.moto_repairs import dynamodb_atomic
from tests.local.support import Moto

LOST = {"ConditionalCheckFailedException", "TransactionCanceledException"}
KEY = {"key": {"S": "main#a"}, "item": {"S": "lease"}}


@pytest.fixture
def table(moto: Moto, *, repaired: bool) -> Any:
    if repaired:
        dynamodb_atomic.apply(moto.patches)
    client = moto.client("dynamodb")
    client.create_table(
        TableName="leases",
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("key", "item")],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch, *, repaired: bool) -> Callable[[Callable[[int], Any]], list[bool]]:
    """Runs two writes, each of which reads the item before either writes, if nothing keeps them apart."""

    def run(write: Callable[[int], Any]) -> list[bool]:
        both_read = Barrier(2)
        # Stock, the other one comes, however late; repaired, it never does.
        patience_s = 0.3 if repaired else 30
        stock_get = Table.get_item

        def get_item(self: Any, *args: Any, **kwargs: Any) -> Any:
            found = stock_get(self, *args, **kwargs)
            try:
                both_read.wait(patience_s)
            except BrokenBarrierError:
                return found
            return found

        def wins(number: int) -> bool:
            try:
                write(number)
            except ClientError as error:
                if error.response["Error"]["Code"] not in LOST:
                    raise
                return False
            return True

        monkeypatch.setattr(Table, "get_item", get_item)
        with ThreadPoolExecutor(2) as pool:
            won = list(pool.map(wins, range(2)))
        monkeypatch.undo()
        return won

    return run


def test_of_two_conditional_updates_one_wins(table: Any, race: Any, *, repaired: bool) -> None:
    def claim(number: int) -> None:
        table.update_item(
            TableName="leases",
            Key=KEY,
            UpdateExpression="SET attempt = :mine",
            ConditionExpression="attribute_not_exists(attempt)",
            ExpressionAttributeValues={":mine": {"N": str(number)}},
        )

    assert sorted(race(claim)) == ([False, True] if repaired else [True, True])


def test_of_two_transactions_on_one_item_one_wins_and_slots_do_not_leak(
    table: Any, race: Any, *, repaired: bool
) -> None:
    slots = {"key": {"S": "slots#main"}, "item": {"S": "slots"}}
    table.put_item(TableName="leases", Item=slots | {"running": {"N": "0"}})

    def claim(number: int) -> None:
        row = {
            "TableName": "leases",
            "Item": KEY | {"attempt": {"N": str(number)}},
            "ConditionExpression": "attribute_not_exists(attempt)",
        }
        count = {
            "TableName": "leases",
            "Key": slots,
            "UpdateExpression": "SET running = running + :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
        table.transact_write_items(TransactItems=[{"Put": row}, {"Update": count}])

    won = race(claim)

    running = table.get_item(TableName="leases", Key=slots)["Item"]["running"]["N"]
    assert (sorted(won) == [False, True] and running == "1") is repaired


def test_lost_condition_hands_over_the_row_that_won(table: Any) -> None:
    table.put_item(TableName="leases", Item=KEY | {"attempt": {"N": "7"}})

    with pytest.raises(ClientError) as lost:
        table.transact_write_items(
            TransactItems=[
                {
                    "Update": {
                        "TableName": "leases",
                        "Key": KEY,
                        "UpdateExpression": "SET attempt = :new",
                        "ConditionExpression": "attempt = :old",
                        "ExpressionAttributeValues": {":new": {"N": "2"}, ":old": {"N": "1"}},
                        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                    }
                }
            ]
        )

    (reason,) = lost.value.response["CancellationReasons"]
    assert (reason["Code"], reason["Item"]["attempt"]) == ("ConditionalCheckFailed", {"N": "7"})
