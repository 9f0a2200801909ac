"""Rules of DynamoDB: which conditions hold, what an update does, and what is refused."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from tests.contract.conftest import Aws, create_leases_table
from tests.contract.refusals import code_of
from tests.fidelity.rule import Answer, Rule

KEY = {"key": {"S": "main#a"}, "item": {"S": "lease"}}
ROW = KEY | {
    "n": {"N": "5"},
    "s": {"S": "abc"},
    "flag": {"BOOL": True},
    "open": {"S": "main#RUNNING"},
}
OPERANDS = {
    ":one": {"N": "1"},
    ":five": {"N": "5"},
    ":nine": {"N": "9"},
    ":ab": {"S": "ab"},
    ":b": {"S": "b"},
    ":flag": {"BOOL": True},
}
FAILS = "ConditionalCheckFailedException"
REFUSED = "ValidationException"
CONDITIONS = "Expressions.OperatorsAndFunctions"
UPDATES = "Expressions.UpdateExpressions"


def rows(aws: Aws) -> Any:
    """DynamoDB with one row."""
    dynamodb = aws.client("dynamodb")
    create_leases_table(dynamodb)
    dynamodb.put_item(TableName="leases", Item=ROW)
    return dynamodb


def row(dynamodb: Any) -> dict[str, Any]:
    return dict(dynamodb.get_item(TableName="leases", Key=KEY, ConsistentRead=True)["Item"])


def update(dynamodb: Any, expression: str, values: Mapping[str, Any], **more: Any) -> None:
    given = {"ExpressionAttributeValues": dict(values)} if values else {}
    dynamodb.update_item(TableName="leases", Key=KEY, UpdateExpression=expression, **given, **more)


def named(name: str, probe: Callable[[Aws], str]) -> Callable[[Aws], str]:
    probe.__name__ = name
    return probe


def condition(text: str, answer: str = "ok", **more: Any) -> Rule:
    """A condition of an update of the row, which holds or fails."""

    def probe(aws: Aws) -> str:
        dynamodb = rows(aws)
        values = {name: value for name, value in OPERANDS.items() if name in text}
        return code_of(lambda: update(dynamodb, "SET x = s", values, ConditionExpression=text))

    return Rule(named(f"condition `{text}`", probe), answer, CONDITIONS, **more)


def effect(expression: str, values: Mapping[str, Any], after: Mapping[str, Any]) -> Rule:
    """An update of the row, and some of its attributes afterwards. None: it is gone."""

    def shown(attributes: Mapping[str, Any]) -> str:
        # A set has no order.
        plain = {name: attributes.get(name) for name in after}
        return json.dumps(plain | ordered(plain), sort_keys=True)

    def ordered(attributes: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {"SS": sorted(value["SS"])}
            for name, value in attributes.items()
            if value and "SS" in value
        }

    def probe(aws: Aws) -> str:
        dynamodb = rows(aws)
        update(dynamodb, expression, values)
        return shown(row(dynamodb))

    return Rule(named(f"update `{expression}`", probe), shown(after), UPDATES)


def invalid(
    name: str,
    words: str,
    expression: str,
    values: Mapping[str, Any] | None = None,
    condition: str | None = None,
    source: str = UPDATES,
    embedded: Answer | None = None,
    why: str = "",
) -> Rule:
    """An update that is refused and changes nothing.

    Args:
        name: What is wrong.
        words: A part of AWS's message, and so of the fake's. Other engines have other words.
        expression: The update.
        values: The values of its placeholders.
        condition: The condition of the update.
        source: The page of AWS's documentation.
        embedded: The answer of the embedded AWS, where it differs.
        why: Who is right where one differs.
    """
    names = {name: name[1:] for name in ("#open", "#item") if name in expression}
    more: dict[str, Any] = {"ConditionExpression": condition} if condition else {}
    if names:
        more["ExpressionAttributeNames"] = names

    def probe(aws: Aws) -> str:
        dynamodb = rows(aws)
        answer = refusal(aws, words, lambda: update(dynamodb, expression, values or {}, **more))
        return answer if answer == "ok" or row(dynamodb) == ROW else f"{answer}, but it changed"

    return Rule(named(name, probe), REFUSED, source, embedded=embedded, why=why)


def refusal(aws: Aws, words: str, call: Callable[[], Any]) -> str:
    """The error code of the call, or `ok`. The fake has AWS's words too."""
    try:
        call()
    except ClientError as error:
        code = str(error.response["Error"]["Code"])
        return code if words in str(error) or not aws.fake else str(error)
    return "ok"


def key(name: str, words: str, wrong: Mapping[str, Any], **more: Any) -> Rule:
    """A read under a key that is refused."""

    def probe(aws: Aws) -> str:
        dynamodb = rows(aws)
        return refusal(
            aws,
            words,
            lambda: dynamodb.get_item(TableName="leases", Key=wrong, ConsistentRead=True),
        )

    return Rule(named(name, probe), REFUSED, "API_GetItem", **more)


BROKEN = "moto fails. No expression of Longhaul's is like this"
UNLOOKED = "moto does not look at it. Longhaul writes none"
ONE, TEXT = {":v": {"N": "1"}}, {":v": {"S": "x"}}
RULES = [
    condition("n = :five"),
    condition("n <> :five", FAILS),
    condition("absent <> :five"),
    condition("absent = :five", FAILS),
    condition("n < :nine AND n > :one"),
    condition("n <= :five AND n >= :five"),
    condition("n > :nine OR s = :five OR n = :five"),
    condition("n = :nine AND n = :one OR n = :five"),  # AND binds tighter
    condition("n = :five OR n = :one AND n = :nine"),
    condition("(n = :five OR n = :one) AND n = :nine", FAILS),
    condition("attribute_exists(n) AND attribute_not_exists(absent)"),
    condition("attribute_exists(absent)", FAILS),
    condition("begins_with(s, :ab)"),
    condition("begins_with(s, :b)", FAILS),
    condition("s < :five", FAILS, embedded="500", why=BROKEN),  # two types have no order
    condition("s > :five", FAILS, embedded="500", why=BROKEN),
    effect("SET n = n + :v", {":v": {"N": "2"}}, {"n": {"N": "7"}}),
    effect("SET n = n - :v", {":v": {"N": "2"}}, {"n": {"N": "3"}}),
    effect("SET m = if_not_exists(m, :v) + :v", {":v": {"N": "2"}}, {"m": {"N": "4"}}),
    effect("SET n = if_not_exists(n, :v)", {":v": {"N": "2"}}, {"n": {"N": "5"}}),
    # Both parts read the item before the update.
    effect("SET s = n, n = s", {}, {"s": {"N": "5"}, "n": {"S": "abc"}}),
    effect("ADD n :v, m :v", {":v": {"N": "-1"}}, {"n": {"N": "4"}, "m": {"N": "-1"}}),
    effect("ADD tags :v", {":v": {"SS": ["a", "b"]}}, {"tags": {"SS": ["a", "b"]}}),
    effect(
        "REMOVE s, flag SET n = :v",
        {":v": {"N": "7"}},
        {"s": None, "flag": None, "n": {"N": "7"}},
    ),
    effect("set n = :v remove s", {":v": {"N": "100"}}, {"n": {"N": "100"}, "s": None}),
    invalid("value without a definition", "value used in expression is not defined", "SET n = :v"),
    invalid(
        "name without a definition",
        "name used in the document path is not defined",
        "SET #n = s",
        embedded="500",
        why=BROKEN,
    ),
    invalid(
        "unused value", "unused in expressions: keys: {:w}", "SET n = :v", {**ONE, ":w": {"N": "1"}}
    ),
    invalid("update of a reserved word", "reserved keyword: state", "SET state = :v", TEXT),
    invalid(
        "reserved word in a condition", "reserved keyword: ttl", "SET x = :v", TEXT, "ttl = :v"
    ),
    invalid("sum of a text and a number", "incorrect data type", "SET x = s + :v", ONE),
    invalid(
        "update of the sort key",
        "Cannot update attribute item. This attribute is part of the key",
        "SET #item = :v",
        TEXT,
    ),
    invalid("ADD of a text", "operator: ADD, operand type: S", "ADD n :v", TEXT),
    invalid(
        "condition that ends early",
        "Syntax error",
        "SET x = :v",
        ONE,
        "n = :v AND",
        embedded="500",
        why=BROKEN,
    ),
    invalid(
        "condition with a bracket too many",
        "Syntax error",
        "SET x = :v",
        ONE,
        "n = :v)",
        embedded="500",
        why=BROKEN,
    ),
    invalid("update without an equals sign", "Syntax error", "SET x :v", ONE),
    invalid(
        "unknown function",
        "Invalid function name",
        "SET x = :v",
        ONE,
        "is_there(n)",
        embedded="500",
        why=BROKEN,
    ),
    invalid("empty update", "The expression can not be empty", ""),
    invalid(
        "empty set",
        "may not be empty",
        "SET x = :v",
        {":v": {"SS": []}},
        embedded="ok",
        why=UNLOOKED,
    ),
    invalid(
        "value of two types",
        "more than one datatypes",
        "SET x = :v",
        {":v": {"S": "a", "N": "1"}},
        embedded="ok",
        why=UNLOOKED,
    ),
    invalid(
        "update with an empty index key",
        "cannot contain an empty string value",
        "SET #open = :v",
        {":v": {"S": ""}},
        embedded="ok",
        why=UNLOOKED,
    ),
    invalid(
        "index key of another type",
        "Type mismatch for Index Key open",
        "SET #open = :v",
        ONE,
        embedded="ok",
        why=UNLOOKED,
    ),
    key("key without its sort key", "does not match the schema", {"key": {"S": "main#a"}}),
    key("key with a third attribute", "does not match the schema", KEY | {"n": {"N": "1"}}),
    key(
        "empty key",
        "cannot contain an empty string value. Key: key",
        {"key": {"S": ""}, "item": {"S": "lease"}},
    ),
    key(
        "key of another type",
        "Type mismatch for key key",
        {"key": {"N": "1"}, "item": {"S": "lease"}},
        embedded="ok",
        why=UNLOOKED,
    ),
    key(
        "key of more than 2048 bytes",
        "Size of key key has exceeded 2048 bytes",
        {"key": {"S": "x" * 2049}, "item": {"S": "lease"}},
        embedded="ok",
        why=UNLOOKED,
    ),
    invalid(
        "update that reads a missing attribute",
        "refers to an attribute that does not exist",
        "SET x = absent",
    ),
    invalid(
        "two paths of an update that overlap",
        "Two document paths overlap",
        "SET n = :v REMOVE n",
        ONE,
    ),
    invalid(
        "item that grows beyond 400 kib",
        "Item size to update has exceeded",
        "SET x = :v",
        {":v": {"S": "x" * 409_600}},
        source="ServiceQuotas",
    ),
]
