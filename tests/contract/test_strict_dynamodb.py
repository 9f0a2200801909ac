"""The strict DynamoDB refuses what DynamoDB refuses, and evaluates expressions as it does."""

from typing import Any

import pytest
from botocore.exceptions import ParamValidationError

from simulation.aws.cloud import FakeAws
from simulation.aws.dynamodb.client import FakeDynamoDB
from tests.contract.conftest import Aws, create_leases_table
from tests.contract.refusals import code_of, refused

KEY = {"key": {"S": "main#a"}, "item": {"S": "lease"}}
OTHER = {"key": {"S": "main#b"}, "item": {"S": "lease"}}
ROW = KEY | {
    "n": {"N": "5"},
    "s": {"S": "abc"},
    "flag": {"BOOL": True},
    "open": {"S": "main#RUNNING"},
}


@pytest.fixture
def db(fake: FakeAws) -> FakeDynamoDB:
    create_leases_table(fake.dynamodb)
    fake.dynamodb.put_item(TableName="leases", Item=ROW)
    return fake.dynamodb


@pytest.fixture
def either(aws: Aws) -> Any:
    """The table on the fake and on moto, so that two implementations agree on expressions."""
    client = aws.client("dynamodb")
    create_leases_table(client)
    client.put_item(TableName="leases", Item=ROW)
    return client


def update(
    db: Any, expression: str, condition: str | None = None, /, **values: Any
) -> dict[str, Any]:
    """The item after the update. `v={"N": "1"}` is the value of `:v`."""
    request: dict[str, Any] = {"TableName": "leases", "Key": KEY, "UpdateExpression": expression}
    if condition:
        request["ConditionExpression"] = condition
    if values:
        request["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
    return dict(db.update_item(**request, ReturnValues="ALL_NEW")["Attributes"])


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("n = :five", True),
        ("n <> :five", False),
        ("absent <> :five", True),
        ("absent = :five", False),
        ("n < :nine AND n > :one", True),
        ("n <= :five AND n >= :five", True),
        ("n > :nine OR s = :five OR n = :five", True),
        ("NOT n = :five", False),
        ("NOT (n > :nine OR n = :five)", False),
        ("n = :nine AND n = :one OR n = :five", True),  # AND binds tighter
        ("n = :five OR n = :one AND n = :nine", True),
        ("(n = :five OR n = :one) AND n = :nine", False),
        ("attribute_exists(n) AND attribute_not_exists(absent)", True),
        ("attribute_exists(absent)", False),
        ("begins_with(s, :ab)", True),
        ("begins_with(s, :none)", False),
        ("n IN (:one, :five)", True),
        ("n in (:one, :nine)", False),
    ],
)
def test_condition_holds_or_fails_as_in_dynamodb(
    either: Any, condition: str, *, holds: bool
) -> None:
    numbers = {
        "one": {"N": "1"},
        "five": {"N": "5"},
        "nine": {"N": "9"},
        "ab": {"S": "ab"},
        "none": {"S": "b"},
    }
    values = {name: value for name, value in numbers.items() if f":{name}" in condition}
    expected = "ok" if holds else "ConditionalCheckFailedException"
    assert code_of(lambda: update(either, "SET x = s", condition, **values)) == expected


@pytest.mark.parametrize(
    ("expression", "values", "after"),
    [
        ("SET n = n + :v", {"v": {"N": "2"}}, {"n": {"N": "7"}}),
        ("SET n = n - :v", {"v": {"N": "2.5"}}, {"n": {"N": "2.5"}}),
        ("SET m = if_not_exists(m, :v) + :v", {"v": {"N": "2"}}, {"m": {"N": "4"}}),
        ("SET n = if_not_exists(n, :v)", {"v": {"N": "2"}}, {"n": {"N": "5"}}),
        # Both parts read the item before the update.
        (
            "SET s = n, n = s",
            {},
            {"s": {"N": "5"}, "n": {"S": "abc"}},
        ),
        ("ADD n :v, m :v", {"v": {"N": "-1"}}, {"n": {"N": "4"}, "m": {"N": "-1"}}),
        ("ADD tags :v", {"v": {"SS": ["a", "b"]}}, {"tags": {"SS": ["a", "b"]}}),
        (
            "REMOVE s, flag SET n = :v",
            {"v": {"N": "7"}},
            {"s": None, "flag": None, "n": {"N": "7"}},
        ),
        ("set n = :v remove s", {"v": {"N": "100"}}, {"n": {"N": "100"}, "s": None}),
    ],
)
def test_update_has_the_effect_that_it_has_in_dynamodb(
    either: Any, expression: str, values: dict[str, Any], after: dict[str, Any]
) -> None:
    item = update(either, expression, **values)
    assert {name: item.get(name) for name in after} == after


def test_values_of_two_types_have_no_order(db: FakeDynamoDB) -> None:
    for comparator in ("<", ">"):
        with refused("ConditionalCheckFailedException"):
            update(db, "SET x = s", f"s {comparator} :five", five={"N": "5"})


@pytest.mark.parametrize(
    ("written", "kept"), [("007", "7"), ("1e2", "100"), ("-0", "0"), ("2.50", "2.5")]
)
def test_numbers_are_stored_in_one_form(db: FakeDynamoDB, written: str, kept: str) -> None:
    assert update(db, "SET n = :v", v={"N": written})["n"] == {"N": kept}


def test_update_of_a_missing_item_creates_it(db: FakeDynamoDB) -> None:
    expression = {
        "UpdateExpression": "ADD running :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    db.update_item(TableName="leases", Key=OTHER, **expression)
    assert db.get_item(TableName="leases", Key=OTHER)["Item"] == OTHER | {"running": {"N": "1"}}


@pytest.mark.parametrize(
    ("expression", "condition", "values", "text"),
    [
        ("SET n = :v", None, {}, "attribute value used in expression is not defined"),
        ("SET #n = s", None, {}, "attribute name used in the document path is not defined"),
        (
            "SET n = :v",
            None,
            {"v": {"N": "1"}, "w": {"N": "1"}},
            "unused in expressions: keys: {:w}",
        ),
        ("SET state = :v", None, {"v": {"S": "x"}}, "reserved keyword: state"),
        ("SET x = :v", "ttl = :v", {"v": {"S": "x"}}, "reserved keyword: ttl"),
        ("SET x = absent", None, {}, "refers to an attribute that does not exist"),
        ("SET x = s + :v", None, {"v": {"N": "1"}}, "incorrect data type"),
        (
            "SET x = :v SET y = :v",
            None,
            {"v": {"N": "1"}},
            'The "SET" section can only be used once',
        ),
        ("SET n = :v REMOVE n", None, {"v": {"N": "1"}}, "Two document paths overlap"),
        (
            "SET #item = :v",
            None,
            {"v": {"S": "x"}},
            "Cannot update attribute item. This attribute is part of the key",
        ),
        (
            "SET x = :v",
            "n < :flag",
            {"v": {"S": "x"}, "flag": {"BOOL": True}},
            "operator: <, operand type: BOOL",
        ),
        ("ADD n :v", None, {"v": {"S": "x"}}, "operator: ADD, operand type: S"),
        ("SET x = :v", "n = :v AND", {"v": {"N": "1"}}, "Syntax error"),
        ("SET x = :v", "n = :v)", {"v": {"N": "1"}}, "Syntax error"),
        ("SET x :v", None, {"v": {"N": "1"}}, "Syntax error"),
        ("SET x = :v", "is_there(n)", {"v": {"N": "1"}}, "Invalid function name"),
        ("", None, {}, "The expression can not be empty"),
        ("SET x = :v", None, {"v": {"N": "one"}}, "cannot be converted to a numeric value"),
        ("SET x = :v", None, {"v": {"N": "1" * 39}}, "more than 38 significant digits"),
        ("SET x = :v", None, {"v": {"SS": []}}, "may not be empty"),
        ("SET x = :v", None, {"v": {"S": "a", "N": "1"}}, "more than one datatypes"),
        ("SET #open = :v", None, {"v": {"S": ""}}, "cannot contain an empty string value"),
        ("SET #open = :v", None, {"v": {"N": "1"}}, "Type mismatch for Index Key open"),
        ("SET x = :v", None, {"v": {"S": "x" * 409_600}}, "Item size to update has exceeded"),
    ],
)
def test_invalid_update_is_refused_and_changes_nothing(
    db: FakeDynamoDB, expression: str, condition: str | None, values: dict[str, Any], text: str
) -> None:
    request: dict[str, Any] = {"TableName": "leases", "Key": KEY, "UpdateExpression": expression}
    request |= {"ConditionExpression": condition} if condition else {}
    request |= (
        {"ExpressionAttributeValues": {f":{n}": value for n, value in values.items()}}
        if values
        else {}
    )
    names = {
        placeholder: placeholder[1:]
        for placeholder in ("#open", "#item")
        if placeholder in expression
    }
    request |= {"ExpressionAttributeNames": names} if names else {}
    with refused("ValidationException", text):
        db.update_item(**request)
    assert db.get_item(TableName="leases", Key=KEY)["Item"] == ROW


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ({"key": {"S": "main#a"}}, "does not match the schema"),
        (KEY | {"n": {"N": "1"}}, "does not match the schema"),
        (
            {"key": {"S": ""}, "item": {"S": "lease"}},
            "cannot contain an empty string value. Key: key",
        ),
        ({"key": {"N": "1"}, "item": {"S": "lease"}}, "Type mismatch for key key"),
        (
            {"key": {"S": "x" * 2049}, "item": {"S": "lease"}},
            "Size of key key has exceeded 2048 bytes",
        ),
    ],
)
def test_invalid_key_is_refused(db: FakeDynamoDB, key: dict[str, Any], text: str) -> None:
    with refused("ValidationException", text):
        db.get_item(TableName="leases", Key=key)


def test_item_beyond_400_kib_is_refused(db: FakeDynamoDB) -> None:
    overhead = len("key") + len("main#b") + len("item") + len("lease") + len("x")
    db.put_item(TableName="leases", Item=OTHER | {"x": {"S": "é" * ((409_600 - overhead) // 2)}})
    with refused("ValidationException", "Item size has exceeded"):
        db.put_item(TableName="leases", Item=OTHER | {"x": {"S": "x" * (409_601 - overhead)}})


def test_failed_transaction_writes_nothing_and_returns_every_reason(db: FakeDynamoDB) -> None:
    put = {"TableName": "leases", "Item": OTHER}
    check = {
        "TableName": "leases",
        "Key": KEY,
        "ConditionExpression": "n = :v",
        "ExpressionAttributeValues": {":v": {"N": "6"}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    with pytest.raises(Exception, match=r"\[None, ConditionalCheckFailed\]") as refusal:
        db.transact_write_items(TransactItems=[{"Put": put}, {"ConditionCheck": check}])
    reasons = getattr(refusal.value, "response", {})["CancellationReasons"]
    assert reasons[0] == {"Code": "None"}
    assert reasons[1]["Item"] == ROW
    assert "Item" not in db.get_item(TableName="leases", Key=OTHER)


def test_transaction_with_one_item_twice_is_refused(db: FakeDynamoDB) -> None:
    delete = {"Delete": {"TableName": "leases", "Key": KEY}}
    with refused("ValidationException", "multiple operations on one item"):
        db.transact_write_items(
            TransactItems=[delete, {"Put": {"TableName": "leases", "Item": ROW}}]
        )


def test_transaction_repeated_with_its_token_has_no_effect_for_ten_minutes(
    fake: FakeAws, db: FakeDynamoDB
) -> None:
    def add(by: str) -> Any:
        change = {"UpdateExpression": "ADD n :by", "ExpressionAttributeValues": {":by": {"N": by}}}
        items = [{"Update": {"TableName": "leases", "Key": KEY, **change}}]
        return db.transact_write_items(TransactItems=items, ClientRequestToken="token")

    add("1")
    add("1")
    with refused("IdempotentParameterMismatchException"):
        add("2")
    fake.clock.advance(600)
    add("1")
    assert db.get_item(TableName="leases", Key=KEY)["Item"]["n"] == {"N": "7"}


def test_item_in_a_transaction_refuses_single_writes(db: FakeDynamoDB) -> None:
    db.make_busy("leases", KEY)
    with refused("TransactionConflictException"):
        update(db, "SET x = s")
    assert update(db, "SET x = s")["x"] == {"S": "abc"}


def test_query_of_an_index_needs_its_key_and_refuses_consistent_reads(db: FakeDynamoDB) -> None:
    query: dict[str, Any] = {"TableName": "leases", "IndexName": "open"}
    names: dict[str, Any] = {"ExpressionAttributeNames": {"#o": "open"}}
    values: dict[str, Any] = {"ExpressionAttributeValues": {":o": {"S": "main#RUNNING"}}}
    assert db.query(**query, **names, **values, KeyConditionExpression="#o = :o")["Items"] == [
        KEY | {"open": {"S": "main#RUNNING"}}
    ]
    with refused("ValidationException", "Consistent reads are not supported"):
        db.query(**query, **names, **values, KeyConditionExpression="#o = :o", ConsistentRead=True)
    with refused("ValidationException", "missed key schema element: open"):
        db.query(**query, **values, KeyConditionExpression="n = :o")


def test_table_is_queried_by_partition_and_sort_key(db: FakeDynamoDB) -> None:
    for item in ("pending#1", "pending#2", "request#1"):
        db.put_item(TableName="leases", Item={"key": {"S": "main#a"}, "item": {"S": item}})
    found = db.query(
        TableName="leases",
        KeyConditionExpression="#k = :k AND begins_with(#i, :p)",
        ExpressionAttributeNames={"#k": "key", "#i": "item"},
        ExpressionAttributeValues={":k": {"S": "main#a"}, ":p": {"S": "pending#"}},
    )
    assert [each["item"]["S"] for each in found["Items"]] == ["pending#1", "pending#2"]


def test_arguments_that_botocore_refuses_are_refused(db: FakeDynamoDB) -> None:
    with pytest.raises(ParamValidationError):
        db.put_item(TableName="leases", Item=KEY | {"n": {"N": 5}})
    with pytest.raises(TypeError):
        db.delete_item(TableName="leases", Key=KEY, ReturnConsumedCapacity="TOTAL")


def test_stored_item_does_not_change_with_values_of_the_caller(
    db: FakeDynamoDB,
) -> None:
    item = OTHER | {"x": {"S": "before"}}
    db.put_item(TableName="leases", Item=item)
    item["x"]["S"] = "after"
    db.get_item(TableName="leases", Key=OTHER)["Item"]["x"] = {"S": "after"}
    assert db.get_item(TableName="leases", Key=OTHER)["Item"]["x"] == {"S": "before"}
