"""The condition keys of DynamoDB that a request has.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from longhaul.local.iam.judge import Context

_EXPRESSIONS: Final = (
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
)
_WORDS: Final = {"set", "remove", "add", "delete", "and", "or", "not", "between", "in"}
# The name at the top of a path. A name before a bracket is a function.
_NAME: Final = re.compile(r"(?<![\w:#.])(#?[A-Za-z_]\w*)(?!\w|\s*\()")


def dynamodb_context(operation: str, asked: Mapping[str, Any], hash_key: str | None) -> Context:
    """The condition keys of one item's or one query's part of a request.

    Args:
        operation: the action, such as `UpdateItem`.
        asked: the parameters of that part.
        hash_key: the attribute that is the partition key, if it is known.
    """
    items = list(_items(asked))
    context: dict[str, str | list[str]] = {}
    attributes = {name for item in items for name in item} | set(_named(asked))
    if attributes:
        context["dynamodb:Attributes"] = sorted(attributes)
    leading: set[str] = set()
    if hash_key is not None:
        leading = {_text(item[hash_key]) for item in items if hash_key in item}
    if operation == "Query" and hash_key is not None:
        leading |= set(_asked_key(asked, hash_key))
    if leading:
        context["dynamodb:LeadingKeys"] = sorted(leading)
    return context


def _items(asked: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in ("Key", "Item"):
        if name in asked:
            yield asked[name]
    yield from asked.get("Keys", ())


def _named(asked: Mapping[str, Any]) -> Iterator[str]:
    aliases = asked.get("ExpressionAttributeNames") or {}
    for expression in _EXPRESSIONS:
        for name in _NAME.findall(asked.get(expression) or ""):
            if name.lower() not in _WORDS:
                yield aliases.get(name, name)


def _asked_key(asked: Mapping[str, Any], hash_key: str) -> Iterator[str]:
    aliases = asked.get("ExpressionAttributeNames") or {}
    values = asked.get("ExpressionAttributeValues") or {}
    terms = re.findall(r"(#?\w+)\s*=\s*(:\w+)", asked.get("KeyConditionExpression") or "")
    yield from (
        _text(values[value]) for name, value in terms if aliases.get(name, name) == hash_key
    )


def _text(value: Mapping[str, Any]) -> str:
    return str(next(iter(value.values())))
