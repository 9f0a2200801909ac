"""Reading a request to DynamoDB: its expressions, and what their placeholders stand for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tests.fakes import expression_nodes as nodes
from tests.fakes import expressions
from tests.fakes.attribute_values import invalid, stored
from tests.fakes.expression_nodes import Environment, ExpressionError

T = TypeVar("T")

_PLACEHOLDERS = {"ExpressionAttributeNames": "#", "ExpressionAttributeValues": ":"}
_NOTHING: Mapping[str, Any] = {}


def evaluated(name: str, evaluate: Callable[[], T]) -> T:
    """The value; an expression that cannot be read or evaluated is the caller's mistake."""
    try:
        return evaluate()
    except ExpressionError as error:
        raise invalid(f"Invalid {name}: {error}") from None


def environment(request: Mapping[str, Any], parsed: Sequence[expressions.Parsed]) -> Environment:
    """The placeholders of the request: each that is used must be given, and each that is given must be used."""
    used = frozenset[str]().union(*(each.used for each in parsed))
    for member, sign in _PLACEHOLDERS.items():
        given = request.get(member)
        wanted = {placeholder for placeholder in used if placeholder[0] == sign}
        if given is not None:
            if not parsed:
                raise invalid(f"{member} can only be specified when using expressions")
            if not given:
                raise invalid(f"{member} must not be empty")
        if missing := wanted - (given or _NOTHING).keys():
            what = "name used in the document path" if sign == "#" else "value used in expression"
            raise invalid(
                f"Invalid expression: An expression attribute {what} is not defined; attribute: {min(missing)}"
            )
        if unused := (given or _NOTHING).keys() - wanted:
            raise invalid(f"Value provided in {member} unused in expressions: keys: {{{', '.join(sorted(unused))}}}")
    values = request.get("ExpressionAttributeValues") or _NOTHING
    return Environment(
        request.get("ExpressionAttributeNames") or _NOTHING, {name: stored(value) for name, value in values.items()}
    )


def hash_value(condition: expressions.Condition, env: Environment, hash_key: str) -> Any:
    """The partition that a query asks for: its key condition must set the partition key equal to a value."""
    for clause in condition.clauses():
        match clause:
            case nodes.Comparison("=", nodes.Path() as path, nodes.Literal(placeholder)) if path.name(env) == hash_key:
                return next(iter(env.values[placeholder].values()))
    raise invalid(f"Query condition missed key schema element: {hash_key}")
