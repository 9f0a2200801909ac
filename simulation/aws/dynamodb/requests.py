"""The expressions of a request to DynamoDB, and the values of their placeholders."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from simulation.aws.dynamodb import expressions, nodes
from simulation.aws.dynamodb.nodes import Environment, ExpressionError
from simulation.aws.dynamodb.values import invalid, stored

T = TypeVar("T")

_NOTHING: Mapping[str, Any] = {}


def evaluated(name: str, evaluate: Callable[[], T]) -> T:
    """Evaluate; an expression that cannot be parsed or evaluated is a ValidationException."""
    try:
        return evaluate()
    except ExpressionError as error:
        raise invalid(f"Invalid {name}: {error}") from None


def environment(request: Mapping[str, Any], parsed: Sequence[expressions.Parsed]) -> Environment:
    """The request's placeholders: all that are used must be given, and all given must be used."""
    names = _given(request, "ExpressionAttributeNames", [each.names for each in parsed])
    values = _given(request, "ExpressionAttributeValues", [each.values for each in parsed])
    return Environment(names, {name: stored(value) for name, value in values.items()})


def _given(
    request: Mapping[str, Any], member: str, used: Sequence[frozenset[str]]
) -> Mapping[str, Any]:
    given: Mapping[str, Any] = request.get(member, _NOTHING)
    wanted = used[0] if len(used) == 1 else frozenset[str]().union(*used)
    if given.keys() == wanted and (given or member not in request):
        return given
    if not used:
        raise invalid(f"{member} can only be specified when using expressions")
    if missing := wanted - given.keys():
        what = (
            "name used in the document path"
            if member.endswith("Names")
            else "value used in expression"
        )
        raise invalid(
            f"Invalid expression: An expression attribute {what} is not defined;"
            f" attribute: {min(missing)}"
        )
    if not given:
        raise invalid(f"{member} must not be empty")
    unused = ", ".join(sorted(given.keys() - wanted))
    raise invalid(f"Value provided in {member} unused in expressions: keys: {{{unused}}}")


def hash_value(condition: expressions.Condition, env: Environment, hash_key: str) -> Any:
    """The partition of a query, whose condition must set the partition key equal to a value."""
    for clause in condition.clauses():
        match clause:
            case nodes.Comparison("=", nodes.Path() as path, nodes.Literal(placeholder)) if (
                path.name(env) == hash_key
            ):
                return next(iter(env.values[placeholder].values()))
    raise invalid(f"Query condition missed key schema element: {hash_key}")
