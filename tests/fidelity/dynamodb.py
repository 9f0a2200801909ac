"""Rules of DynamoDB: transactions, conditions, numbers and sizes."""

from typing import Any

from botocore.exceptions import ClientError

from tests.contract.conftest import Aws, create_leases_table
from tests.contract.refusals import code_of
from tests.fidelity.dynamodb_expressions import refusal
from tests.fidelity.rule import Rules

OTHER = {"key": {"S": "main#b"}, "item": {"S": "lease"}}
KEY = {"key": {"S": "main#a"}, "item": {"S": "lease"}}
OPEN = {"ExpressionAttributeNames": {"#o": "open"}}
RULES = Rules()


def leases(aws: Aws) -> Any:
    dynamodb = aws.client("dynamodb")
    create_leases_table(dynamodb)
    dynamodb.put_item(TableName="leases", Item=KEY | {"n": {"N": "1"}})
    return dynamodb


@RULES.add(
    "2",
    "API_TransactWriteItems",
    embedded="3",
    why="moto ignores tokens. Ours only ever makes a repeated write a conflict with itself",
)
def transaction_repeated_with_its_token(aws: Aws) -> str:
    dynamodb = leases(aws)
    change = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    for _ in range(2):
        dynamodb.transact_write_items(
            TransactItems=[{"Update": {"TableName": "leases", "Key": KEY, **change}}],
            ClientRequestToken="token",
        )
    return str(
        dynamodb.get_item(TableName="leases", Key=KEY, ConsistentRead=True)["Item"]["n"]["N"]
    )


@RULES.add("ValidationException", "API_PutItem")
def empty_index_key(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY | {"open": {"S": ""}}))


@RULES.add("ValidationException", "Expressions.ExpressionAttributeNames")
def unused_placeholders(aws: Aws) -> str:
    dynamodb = leases(aws)
    condition = {
        "ConditionExpression": "attribute_exists(n)",
        "ExpressionAttributeNames": {"#unused": "x"},
    }
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY, **condition))


@RULES.add("ValidationException", "API_TransactWriteItems")
def two_changes_of_one_item_in_a_transaction(aws: Aws) -> str:
    dynamodb = leases(aws)
    change = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    update = {"Update": {"TableName": "leases", "Key": KEY, **change}}
    return refusal(
        aws,
        "multiple operations on one item",
        lambda: dynamodb.transact_write_items(TransactItems=[update, update]),
    )


@RULES.add("TransactionCanceledException", "API_TransactWriteItems")
def condition_of_a_transaction_that_does_not_hold(aws: Aws) -> str:
    dynamodb = leases(aws)
    put = {
        "TableName": "leases",
        "Item": KEY,
        "ConditionExpression": "attribute_not_exists(#key)",
        "ExpressionAttributeNames": {"#key": "key"},
    }
    return code_of(lambda: dynamodb.transact_write_items(TransactItems=[{"Put": put}]))


@RULES.add("item lease, key main#b, running 1", "API_UpdateItem")
def update_of_a_missing_item(aws: Aws) -> str:
    dynamodb = leases(aws)
    dynamodb.update_item(
        TableName="leases",
        Key=OTHER,
        UpdateExpression="ADD running :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )
    item = dynamodb.get_item(TableName="leases", Key=OTHER, ConsistentRead=True)["Item"]
    return ", ".join(f"{name} {value}" for name, value in sorted(plain(item).items()))


def plain(item: dict[str, Any]) -> dict[str, str]:
    return {name: next(iter(value.values())) for name, value in item.items()}


@RULES.add(
    "ok",
    "ServiceQuotas",
    embedded="ValidationException",
    why="moto refuses the limit itself. Longhaul's rows stay far below",
)
def item_of_400_kib(aws: Aws) -> str:
    return code_of(lambda: put_of_size(leases(aws), 409_600))


@RULES.add("ValidationException", "ServiceQuotas")
def item_beyond_400_kib(aws: Aws) -> str:
    dynamodb = leases(aws)
    return refusal(aws, "Item size has exceeded", lambda: put_of_size(dynamodb, 409_601))


def put_of_size(dynamodb: Any, size: int) -> None:
    """Write an item of this many bytes. Its names count, and its text in UTF-8."""
    rest = size - len("keymain#bitemleasex")
    text = "é" * (rest // 2) + "x" * (rest % 2)
    dynamodb.put_item(TableName="leases", Item=OTHER | {"x": {"S": text}})


def cancelled_transaction(aws: Aws) -> tuple[Any, list[Any]]:
    """DynamoDB, and the reasons of a transaction whose last condition does not hold."""
    dynamodb = leases(aws)
    dynamodb.put_item(TableName="leases", Item=other("updated") | {"n": {"N": "1"}})
    add = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    check = {
        "ConditionExpression": "n = :six",
        "ExpressionAttributeValues": {":six": {"N": "6"}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    changes: list[Any] = [
        {"Put": {"Item": other("new")}},
        {"Update": {"Key": other("updated"), **add}},
        {"ConditionCheck": {"Key": KEY, **check}},
    ]
    for change in changes:
        next(iter(change.values()))["TableName"] = "leases"
    try:
        dynamodb.transact_write_items(TransactItems=changes)
    except ClientError as error:
        return dynamodb, list(error.response["CancellationReasons"])
    return dynamodb, []


def other(item: str) -> dict[str, Any]:
    return {"key": {"S": "main#b"}, "item": {"S": item}}


@RULES.add("None, None, ConditionalCheckFailed with n = 1, updated 1", "API_TransactWriteItems")
def reasons_of_a_cancelled_transaction_and_items_after_it(aws: Aws) -> str:
    dynamodb, reasons = cancelled_transaction(aws)
    codes = ", ".join(reason["Code"] for reason in reasons)
    left = ", ".join(f"{item['item']} {item['n']}" for item in others(dynamodb))
    return f"{codes} with n = {reasons[-1]['Item']['n']['N']}, {left}"


def others(dynamodb: Any) -> list[dict[str, str]]:
    """The items under the key of `other`."""
    answer = dynamodb.query(
        TableName="leases",
        ConsistentRead=True,
        KeyConditionExpression="#k = :k",
        ExpressionAttributeNames={"#k": "key"},
        ExpressionAttributeValues={":k": {"S": "main#b"}},
    )
    return [plain(item) for item in answer["Items"]]


def queried(aws: Aws, condition: str, **more: Any) -> Any:
    """A query of the index `open`."""
    dynamodb = leases(aws)
    dynamodb.put_item(TableName="leases", Item=KEY | {"open": {"S": "o"}, "s": {"S": "x"}})
    return dynamodb.query(
        TableName="leases",
        IndexName="open",
        KeyConditionExpression=condition,
        ExpressionAttributeValues={":o": {"S": "o"}},
        **more,
    )


@RULES.add("item, key, open", "API_Query")
def query_of_an_index_of_keys(aws: Aws) -> str:
    (item,) = queried(aws, "#o = :o", **OPEN)["Items"]
    return ", ".join(sorted(item))


@RULES.add("pending#1, pending#2", "API_Query")
def query_by_partition_and_beginning_of_the_sort_key(aws: Aws) -> str:
    dynamodb = leases(aws)
    for name in ("pending#2", "pending#1", "request#1"):
        dynamodb.put_item(TableName="leases", Item=other(name))
    items = dynamodb.query(
        TableName="leases",
        ConsistentRead=True,
        KeyConditionExpression="#k = :k AND begins_with(#i, :p)",
        ExpressionAttributeNames={"#k": "key", "#i": "item"},
        ExpressionAttributeValues={":k": {"S": "main#b"}, ":p": {"S": "pending#"}},
    )["Items"]
    return ", ".join(item["item"]["S"] for item in items)
