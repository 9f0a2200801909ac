"""Reading a request to DynamoDB: its expressions, and what their placeholders stand for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tests.fakes import expression_nodes as nodes
from tests.fakes import expressions
from tests.fakes.attribute_values import invalid, stored
from tests.fakes.expression_nodes import Environment, ExpressionError

T = TypeVar("T")

_NOTHING: Mapping[str, Any] = {}


def evaluated(name: str, evaluate: Callable[[], T]) -> T:
    """The value; an expression that cannot be read or evaluated is the caller's mistake."""
    try:
        return evaluate()
    except ExpressionError as error:
        raise invalid(f"Invalid {name}: {error}") from None


def environment(request: Mapping[str, Any], parsed: Sequence[expressions.Parsed]) -> Environment:
    """The placeholders of the request: each that is used must be given, and each that is given must be used."""
    names = _given(request, "ExpressionAttributeNames", [each.names for each in parsed])
    values = _given(request, "ExpressionAttributeValues", [each.values for each in parsed])
    return Environment(names, {name: stored(value) for name, value in values.items()})


def _given(request: Mapping[str, Any], member: str, used: Sequence[frozenset[str]]) -> Mapping[str, Any]:
    given: Mapping[str, Any] = request.get(member, _NOTHING)
    wanted = frozenset[str]().union(*used)
    if given.keys() == wanted and (given or member not in request):
        return given
    if not used:
        raise invalid(f"{member} can only be specified when using expressions")
    if missing := wanted - given.keys():
        what = "name used in the document path" if member.endswith("Names") else "value used in expression"
        raise invalid(f"Invalid expression: An expression attribute {what} is not defined; attribute: {min(missing)}")
    if not given:
        raise invalid(f"{member} must not be empty")
    unused = ", ".join(sorted(given.keys() - wanted))
    raise invalid(f"Value provided in {member} unused in expressions: keys: {{{unused}}}")


def hash_value(condition: expressions.Condition, env: Environment, hash_key: str) -> Any:
    """The partition that a query asks for: its key condition must set the partition key equal to a value."""
    for clause in condition.clauses():
        match clause:
            case nodes.Comparison("=", nodes.Path() as path, nodes.Literal(placeholder)) if path.name(env) == hash_key:
                return next(iter(env.values[placeholder].values()))
    raise invalid(f"Query condition missed key schema element: {hash_key}")
