"""Rules of DynamoDB: transactions, conditions, numbers and sizes."""

from typing import Any

from tests.contract.conftest import Aws, create_leases_table
from tests.contract.refusals import code_of
from tests.fidelity.rule import Rule

KEY = {"key": {"S": "main#a"}, "item": {"S": "lease"}}


def leases(aws: Aws) -> Any:
    dynamodb = aws.client("dynamodb")
    create_leases_table(dynamodb)
    dynamodb.put_item(TableName="leases", Item=KEY | {"n": {"N": "1"}})
    return dynamodb


def transaction_repeated_with_its_token(aws: Aws) -> str:
    dynamodb = leases(aws)
    change = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    for _ in range(2):
        dynamodb.transact_write_items(
            TransactItems=[{"Update": {"TableName": "leases", "Key": KEY, **change}}],
            ClientRequestToken="token",
        )
    return str(dynamodb.get_item(TableName="leases", Key=KEY)["Item"]["n"]["N"])


def different_transaction_with_the_same_token(aws: Aws) -> str:
    dynamodb = leases(aws)

    def put(n: str) -> Any:
        item = {"Put": {"TableName": "leases", "Item": KEY | {"n": {"N": n}}}}
        return dynamodb.transact_write_items(TransactItems=[item], ClientRequestToken="token")

    put("1")
    return code_of(lambda: put("2"))


def empty_index_key(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY | {"open": {"S": ""}}))


def stored_form_of_a_number(aws: Aws) -> str:
    dynamodb = leases(aws)
    dynamodb.put_item(TableName="leases", Item=KEY | {"n": {"N": "007.50"}})
    return str(dynamodb.get_item(TableName="leases", Key=KEY)["Item"]["n"]["N"])


def number_of_39_digits(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY | {"n": {"N": "1" * 39}}))


def unused_placeholders(aws: Aws) -> str:
    dynamodb = leases(aws)
    condition = {
        "ConditionExpression": "attribute_exists(n)",
        "ExpressionAttributeNames": {"#unused": "x"},
    }
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY, **condition))


def reserved_word_in_a_condition(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(
        lambda: dynamodb.put_item(
            TableName="leases", Item=KEY, ConditionExpression="attribute_not_exists(state)"
        )
    )


def update_that_reads_a_missing_attribute(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(
        lambda: dynamodb.update_item(TableName="leases", Key=KEY, UpdateExpression="SET x = absent")
    )


def item_that_grows_beyond_400_kib(aws: Aws) -> str:
    dynamodb = leases(aws)
    values = {":x": {"S": "x" * 409_600}}
    return code_of(
        lambda: dynamodb.update_item(
            TableName="leases",
            Key=KEY,
            UpdateExpression="SET x = :x",
            ExpressionAttributeValues=values,
        )
    )


def begins_with_and_a_number(aws: Aws) -> str:
    dynamodb = leases(aws)
    condition = {
        "ConditionExpression": "begins_with(n, :one)",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY, **condition))


def two_changes_of_one_item_in_a_transaction(aws: Aws) -> str:
    dynamodb = leases(aws)
    change = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    update = {"Update": {"TableName": "leases", "Key": KEY, **change}}
    return code_of(lambda: dynamodb.transact_write_items(TransactItems=[update, update]))


def condition_of_a_transaction_that_does_not_hold(aws: Aws) -> str:
    dynamodb = leases(aws)
    put = {
        "TableName": "leases",
        "Item": KEY,
        "ConditionExpression": "attribute_not_exists(#key)",
        "ExpressionAttributeNames": {"#key": "key"},
    }
    return code_of(lambda: dynamodb.transact_write_items(TransactItems=[{"Put": put}]))


def update_of_a_key_attribute(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(
        lambda: dynamodb.update_item(
            TableName="leases",
            Key=KEY,
            UpdateExpression="SET #key = :a",
            ExpressionAttributeNames={"#key": "key"},
            ExpressionAttributeValues={":a": {"S": "b"}},
        )
    )


def two_paths_of_an_update_that_overlap(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(
        lambda: dynamodb.update_item(
            TableName="leases",
            Key=KEY,
            UpdateExpression="SET n = :a REMOVE n",
            ExpressionAttributeValues={":a": {"S": "b"}},
        )
    )


NUMBERS = "AWS trims leading and trailing zeros, moto keeps the text. Longhaul writes none"
EXPRESSIONS = "Expressions.OperatorsAndFunctions"
RULES = [
    Rule(
        transaction_repeated_with_its_token,
        "2",
        "API_TransactWriteItems",
        embedded="3",
        why="moto ignores tokens. Ours only ever makes a repeated write a conflict with itself",
    ),
    Rule(
        different_transaction_with_the_same_token,
        "IdempotentParameterMismatchException",
        "API_TransactWriteItems",
        embedded="ok",
        why="moto ignores tokens",
    ),
    Rule(empty_index_key, "ValidationException", "API_PutItem"),
    Rule(
        stored_form_of_a_number,
        "7.5",
        "HowItWorks.NamingRulesDataTypes",
        embedded="007.50",
        why=NUMBERS,
    ),
    Rule(
        number_of_39_digits,
        "ValidationException",
        "HowItWorks.NamingRulesDataTypes",
        embedded="ok",
        why="moto takes any number. Longhaul writes none of more than 16 digits",
    ),
    Rule(unused_placeholders, "ValidationException", "Expressions.ExpressionAttributeNames"),
    Rule(reserved_word_in_a_condition, "ValidationException", "ReservedWords"),
    Rule(
        update_that_reads_a_missing_attribute,
        "ValidationException",
        "Expressions.UpdateExpressions",
    ),
    Rule(item_that_grows_beyond_400_kib, "ValidationException", "ServiceQuotas"),
    Rule(
        begins_with_and_a_number,
        "ValidationException",
        EXPRESSIONS,
        embedded="ConditionalCheckFailedException",
        why="moto compares whatever it gets. Longhaul uses `begins_with` for keys alone",
    ),
    Rule(two_changes_of_one_item_in_a_transaction, "ValidationException", "API_TransactWriteItems"),
    Rule(
        condition_of_a_transaction_that_does_not_hold,
        "TransactionCanceledException",
        "API_TransactWriteItems",
    ),
    Rule(update_of_a_key_attribute, "ValidationException", "API_UpdateItem"),
    Rule(
        two_paths_of_an_update_that_overlap, "ValidationException", "Expressions.UpdateExpressions"
    ),
]
