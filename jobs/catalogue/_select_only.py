"""Lets a query through only if it is one SELECT over known views.

What is looked at is the plan that Spark's own parser makes, before anything in it is resolved: to resolve a path is to read it. Kinds of plan nodes and table
functions are refused unless known to be harmless; of scalar functions Spark has hundreds, of which the few that reach out are refused by name.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from longhaul.domain.errors import PermanentJobError

_NODES: Final = frozenset(
    {
        "Aggregate", "Deduplicate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join",
        "LateralJoin", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation", "PipeOperator", "Pivot", "Project", "Sample", "Sort",
        "SubqueryAlias", "UnresolvedHaving", "UnresolvedHint", "UnresolvedInlineTable", "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases", "UnresolvedTableValuedFunction", "UnresolvedWith",
        "Union", "Unpivot", "WithWindowDefinition",
    }
)  # fmt: skip
_TABLE_FUNCTIONS: Final = frozenset(
    {
        "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer", "range",
        "stack",
    }
)  # fmt: skip
# Calls into the JVM, and readers whose options or arguments name files.
_REFUSED_FUNCTIONS: Final = frozenset(
    {
        "java_method", "reflect", "try_reflect", "from_xml", "schema_of_xml", "from_avro", "to_avro", "schema_of_avro",
        "from_protobuf", "to_protobuf",
    }
)  # fmt: skip

_APPENDED: Final = re.compile(r"; line \d+ pos \d+|\n'|\n\+-|== SQL")

Node = Any  # a Scala object behind Py4J


def require_select(spark: SparkSession, query: str, views: Iterable[str]) -> None:
    """Let the query pass, or say why not.

    Raises:
        PermanentJobError: it is no single SELECT, or reaches for something else than `views`. The message does not quote the whole query.
    """
    session = spark._jsparkSession.sessionState()  # noqa: SLF001 - no public way to the parser
    try:
        plan = session.sqlParser().parsePlan(query)
    except ParseException as error:
        raise PermanentJobError(f"params.query: {without_query(str(error))}") from None
    nodes = list(_nodes(plan))
    tables = {view.lower() for view in views}
    known = tables | {name.lower() for node in nodes if _kind(node) == "UnresolvedWith" for name in _cte_names(node)}
    for node in nodes:
        kind = _kind(node)
        if kind not in _NODES:
            raise PermanentJobError(f"params.query: only one SELECT over the inputs is allowed, not {kind}")
        if kind == "UnresolvedRelation":
            _require_table(node, known, tables)
        if kind == "UnresolvedTableValuedFunction":
            _require(list(_items(node.name())), lambda name: name in _TABLE_FUNCTIONS)
        for expression in _expressions(node):
            _check_expression(expression)


def without_query(message: str) -> str:
    """Spark's message without the query's text or plan, which it appends."""
    return _APPENDED.split(message, maxsplit=1)[0].strip()


def _check_expression(expression: Node) -> None:
    match _kind(expression):
        case "UnresolvedFunction":
            _require(list(_items(expression.nameParts())), lambda name: name not in _REFUSED_FUNCTIONS)
        case "UnresolvedGenerator":  # LATERAL VIEW
            _require([expression.name().unquotedString()], lambda name: name in _TABLE_FUNCTIONS)
        case "ExpressionWithUnresolvedIdentifier":
            # A name computed from text is looked up only when the query is resolved: nobody can say here what it will be.
            raise PermanentJobError("params.query: IDENTIFIER(…) is not allowed")
        case _:
            return


def _require_table(relation: Node, known: set[str], tables: set[str]) -> None:
    parts = list(_items(relation.multipartIdentifier()))
    if len(parts) != 1 or parts[0].lower() not in known or not relation.options().isEmpty():
        raise PermanentJobError(
            f"params.query: unknown table {'.'.join(parts)[:100]!r}; known: {', '.join(sorted(tables)) or 'none'}"
        )


def _require(parts: list[str], is_allowed: Callable[[str], bool]) -> None:
    """Only Spark's own functions have names of one part here: nothing in the query could define others."""
    if len(parts) != 1 or not is_allowed(parts[0].lower()):
        raise PermanentJobError(f"params.query: function {'.'.join(parts)[:100]!r} is not allowed")


def _nodes(plan: Node) -> Iterator[Node]:
    """Every plan node, also those of subqueries and of WITH."""
    todo = [plan]
    while todo:
        node = todo.pop()
        yield node
        todo += [*_items(node.children()), *_items(node.subqueries())]
        if _kind(node) == "UnresolvedWith":
            todo += _items(node.innerChildren())


def _expressions(node: Node) -> Iterator[Node]:
    todo = list(_items(node.expressions()))
    while todo:
        expression = todo.pop()
        yield expression
        todo += _items(expression.children())


def _cte_names(node: Node) -> Iterator[str]:
    return (relation.alias() for relation in _items(node.innerChildren()))


def _items(sequence: Node) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _kind(node: Node) -> str:
    return str(node.getClass().getSimpleName())
