from typing import Any

import pytest
from moto.dynamodb.models.dynamo_type import Item
from moto.dynamodb.models.table import Table

from longhaul.local.moto_repairs import dynamodb as dynamodb_repairs
from tests.local.support import Moto, mends

pytestmark = mends(dynamodb_repairs.atomic)

KEY = {"key": {"S": "a"}, "item": {"S": "row"}}


@pytest.fixture
def table(moto: Moto, *, repaired: bool) -> Any:
    del repaired  # it is by now
    client = moto.client("dynamodb")
    client.create_table(
        TableName="rows",
        KeySchema=[
            {"AttributeName": "key", "KeyType": "HASH"},
            {"AttributeName": "item", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("key", "item")
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


def test_of_two_conditional_updates_one_wins(table: Any, race: Any, *, repaired: bool) -> None:
    def claim(number: int) -> None:
        table.update_item(
            TableName="rows",
            Key=KEY,
            UpdateExpression="SET attempt = :mine",
            ConditionExpression="attribute_not_exists(attempt)",
            ExpressionAttributeValues={":mine": {"N": str(number)}},
        )

    answers = race(Table, "get_item", claim)
    assert answers == (["ConditionalCheckFailedException", "ok"] if repaired else ["ok", "ok"])


def test_of_two_transactions_on_one_item_one_wins_and_the_loser_changes_nothing(
    table: Any, race: Any, *, repaired: bool
) -> None:
    counter = {"key": {"S": "all"}, "item": {"S": "counter"}}
    table.put_item(TableName="rows", Item=counter | {"running": {"N": "0"}})

    def claim(number: int) -> None:
        row = {
            "TableName": "rows",
            "Item": KEY | {"attempt": {"N": str(number)}},
            "ConditionExpression": "attribute_not_exists(attempt)",
        }
        count = {
            "TableName": "rows",
            "Key": counter,
            "UpdateExpression": "SET running = running + :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
        table.transact_write_items(TransactItems=[{"Put": row}, {"Update": count}])

    answers = race(Table, "get_item", claim)

    running = table.get_item(TableName="rows", Key=counter)["Item"]["running"]["N"]
    assert (answers == ["TransactionCanceledException", "ok"] and running == "1") is repaired


def rows_of(client: Any) -> dict[str, str]:
    """`attempt` of each row by its `item`."""
    items = client.scan(TableName="rows")["Items"]
    return {item["item"]["S"]: item["attempt"]["N"] for item in items}


def row(item: str, attempt: int, key: str = "a") -> dict[str, Any]:
    return {"key": {"S": key}, "item": {"S": item}, "attempt": {"N": str(attempt)}}


def test_transaction_copies_no_item_that_it_does_not_name(
    table: Any, monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
    for number in range(40):
        table.put_item(TableName="rows", Item=row(f"other-{number}", number))
    copied: list[Item] = []
    stock_copy = Item.__deepcopy__

    def deepcopy(item: Item, memo: dict[int, Any]) -> Item:
        copied.append(item)
        return stock_copy(item, memo)

    monkeypatch.setattr(Item, "__deepcopy__", deepcopy)
    table.transact_write_items(
        TransactItems=[{"Put": {"TableName": "rows", "Item": row("other-3", 99)}}]
    )

    assert len(copied) == (1 if repaired else 40)
    assert rows_of(table)["other-3"] == "99"
