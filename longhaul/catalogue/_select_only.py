"""Lets a query through only if it is one SELECT over known views that calls known functions.

Two layers hold functions that reach beyond the rows, and either is enough. `require_select` reads
the plan that Spark's own parser makes, before anything in it is resolved: resolving a path would
read it. It visits every object of the plan, and refuses each one whose class is not listed.
`restricted_session` has no other functions than the listed ones, so Spark cannot resolve a call
that the walk over the plan overlooked.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from longhaul.catalogue._sql_functions import (
    FUNCTIONS,
    MOST_ARGUMENTS,
    SCHEMAS,
    TABLE_FUNCTIONS,
    TYPE_ARGUMENT,
)
from longhaul.core.errors import PermanentJobError
from longhaul.core.request import name_of

_PLANS: Final = frozenset(
    {
        "Aggregate", "Deduplicate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit",
        "Intersect", "Join", "LateralJoin", "LimitAll", "LocalLimit", "LocalRelation", "Offset",
        "OneRowRelation", "Pivot", "Project", "RepartitionByExpression", "Sample", "Sort",
        "SubqueryAlias", "Union", "Unpivot", "UnresolvedHaving", "UnresolvedHint",
        "UnresolvedInlineTable", "UnresolvedQualify", "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases", "UnresolvedTableValuedFunction",
        "UnresolvedWith", "WithWindowDefinition",
    }
)  # fmt: skip
_EXPRESSIONS: Final = frozenset(
    {
        "Add", "AggregateExpression", "Alias", "And", "AnyValue", "AttributeReference",
        "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "CaseWhen", "Cast", "Coalesce",
        "Collate", "Concat", "CreateNamedStruct", "Cube", "CurrentDate", "CurrentPath",
        "CurrentTime", "CurrentTimestamp", "CurrentUser", "Divide", "EqualNullSafe", "EqualTo",
        "Exists", "First", "GreaterThan", "GreaterThanOrEqual", "GroupingSets", "ILike", "In",
        "InSubquery", "IntegralDivide", "IsNotNull", "IsNotUnknown", "IsNull", "IsUnknown",
        "JsonTable", "LambdaFunction", "Last", "LateralSubquery", "LessThan", "LessThanOrEqual",
        "Like", "LikeAll", "LikeAny", "ListQuery", "Literal", "Lower", "MultiAlias", "Multiply",
        "NamedArgumentExpression", "Not", "NotLikeAll", "NotLikeAny", "Or", "Overlay",
        "PercentileCont", "PercentileDisc", "PipeExpression", "PipeOperator", "RLike", "Remainder",
        "Rollup", "ScalarSubquery", "SemiStructuredExtract", "ShiftLeft", "ShiftRight",
        "ShiftRightUnsigned", "SortOrder", "SpecifiedWindowFrame", "StringLocate", "StringTrim",
        "StringTrimLeft", "StringTrimRight", "Substring", "Subtract", "TimestampAdd",
        "TimestampDiff", "UnaryMinus", "UnaryPositive", "Unnest", "UnresolvedAlias",
        "UnresolvedAttribute", "UnresolvedCollation", "UnresolvedExtractValue",
        "UnresolvedFunction", "UnresolvedGenerator", "UnresolvedNamedLambdaVariable",
        "UnresolvedOrdinal", "UnresolvedPipeAggregateOrdinal", "UnresolvedRegex", "UnresolvedStar",
        "UnresolvedStarExceptOrReplace", "UnresolvedStarWithColumns",
        "UnresolvedStarWithColumnsRenames", "UnresolvedWindowExpression", "WindowExpression",
        "WindowSpecDefinition", "WindowSpecReference",
    }
)  # fmt: skip
# What nodes hold besides nodes: words of the query, such as the kind of a join, and names.
_DETAILS: Final = frozenset(
    {
        "AliasIdentifier", "Ascending", "Complete", "Cross", "CurrentRow", "Descending", "ExprId",
        "FullOuter", "FunctionIdentifier", "Inner", "JoinHint", "JsonTableColumn",
        "JsonTableColumnKind$Exists", "JsonTableColumnKind$Ordinality", "JsonTableColumnKind$Value",
        "JsonTableErrorMode$ErrorOnError", "JsonTableErrorMode$NullOnError", "LeftAnti",
        "LeftOuter", "LeftSemi", "NaturalJoin", "NullsFirst", "NullsLast", "NumericEvalContext",
        "PathInstruction$Named", "RangeFrame", "RightOuter", "RowFrame", "SampleMethod$Bernoulli",
        "SampleMethod$System", "UnboundedFollowing", "UnboundedPreceding", "UnspecifiedFrame",
        "UsingJoin",
    }
)  # fmt: skip
# These hold values alone, and have no iterator over what they hold.
_VALUES: Final = frozenset({"CaseInsensitiveStringMap", "GenericInternalRow", "UTF8String"})
_LISTED: Final = _PLANS | _EXPRESSIONS | _DETAILS | _VALUES
_INERT_PACKAGES: Final = (
    "java.lang.", "java.math.", "java.time.", "java.util.UUID", "org.apache.spark.sql.types.",
    "scala.Enumeration$", "scala.math.", "scala.runtime.BoxedUnit",
)  # fmt: skip
# An Option is a collection of one element or none.
_COLLECTIONS: Final = ("scala.collection.", "scala.Some", "scala.None$")

# Each costs a call into the JVM. Some nodes hold a part twice, so that nesting doubles them.
_MOST_OBJECTS: Final = 50_000

# PySpark has no class for some, as for a wrong collation.
OF_QUERIES: Final = (AnalysisException, Py4JJavaError)
_BUILTIN: Final = "system.builtin."
_APPENDED: Final = re.compile(r"; line \d+ pos \d+|\n'|\n\+-|== SQL")

Node = Any  # a Scala object behind Py4J


def restricted_session(spark: SparkSession) -> SparkSession:
    """A copy of the session, with its settings and views, that has only the listed functions.

    The session that is given keeps all of them.
    """
    copy = spark._jsparkSession.cloneSession()  # noqa: SLF001 - PySpark has no public way
    state = copy.sessionState()
    for registry, listed in (
        (state.functionRegistry(), FUNCTIONS),
        (state.tableFunctionRegistry(), TABLE_FUNCTIONS),
    ):
        for identifier in list(_items(registry.listFunction())):
            # A function that somebody has registered has another prefix, and goes as well.
            if identifier.unquotedString().removeprefix(_BUILTIN) not in listed:
                registry.dropFunction(identifier)
    return SparkSession(spark.sparkContext, copy)


def require_select(spark: SparkSession, query: str, views: Iterable[str]) -> None:
    """Let the query pass, or say why not.

    Raises:
        PermanentJobError: it is not a single SELECT, it reads something else than `views`, or it
            calls a function that is not listed. The message does not quote the whole query.
    """
    session = spark._jsparkSession.sessionState()  # noqa: SLF001 - no public way to the parser
    with analysis_errors("params.query", OF_QUERIES):
        plan = session.sqlParser().parsePlan(query)
    objects = list(_reachable(plan))
    tables = {view.lower() for view in views}
    known = tables | {
        relation.alias().lower()
        for kind, node in objects
        if kind == "UnresolvedWith"
        for relation in _items(node.innerChildren())
    }
    for kind, node in objects:
        match kind:
            case "UnresolvedRelation":
                _require_table(node, known, tables)
            case "UnresolvedFunction":
                parts = list(_items(node.nameParts()))
                _require_function(parts, FUNCTIONS)
                name = parts[0].lower()
                if name in TYPE_ARGUMENT or name in MOST_ARGUMENTS:  # each costs calls into the JVM
                    _require_arguments(name, list(_items(node.arguments())))
            case "UnresolvedTableValuedFunction":
                _require_function(list(_items(node.name())), TABLE_FUNCTIONS)
            case "UnresolvedGenerator":  # LATERAL VIEW
                _require_function([node.name().unquotedString()], TABLE_FUNCTIONS)


@contextmanager
def analysis_errors(
    blamed: str, errors: tuple[type[Exception], ...] = (AnalysisException,)
) -> Iterator[None]:
    """Blame what the sender gave for what Spark says before it runs anything: a retry says it too.

    Raises:
        PermanentJobError: with Spark's message, without the query's text or plan, which it appends.
    """
    try:
        yield
    except errors as error:
        message = str(getattr(error, "java_exception", error))
    else:
        return
    raise PermanentJobError(f"{blamed}: {_APPENDED.split(message, maxsplit=1)[0].strip()}")


def _reachable(plan: Node) -> Iterator[tuple[str, Node]]:
    """Every object of Spark's in the plan, with its class's name.

    A node's own lists of children and expressions leave out some that it holds in other ways, such
    as the columns of `|> SET` and named windows. So this walks all fields of all objects.

    Raises:
        PermanentJobError: a class is not listed.
    """
    todo, seen = [plan], 0
    while todo:
        value = todo.pop()
        seen += 1
        if seen > _MOST_OBJECTS:
            raise PermanentJobError(
                "params.query: it is too long or too deeply nested: put long lists into an input,"
                " and join it"
            )
        if not isinstance(value, JavaObject):  # a text or a number
            continue
        class_name = value.getClass().getName()
        if class_name.startswith(_COLLECTIONS):
            todo += _items(value)
        elif class_name.startswith("scala.Tuple"):
            todo += _remaining(value.productIterator())
        elif not class_name.startswith(_INERT_PACKAGES):
            # An object's class ends with `$`; an anonymous subclass has a number behind its base.
            kind = class_name.rpartition(".")[2].partition("$$anon$")[0].removesuffix("$")
            _require_listed(class_name, kind)
            yield kind, value
            if kind not in _VALUES:
                todo += _remaining(value.productIterator())


def _require_listed(class_name: str, kind: str) -> None:
    if kind in {"ExpressionWithUnresolvedIdentifier", "PlanWithUnresolvedIdentifier"}:
        # A name computed from text is known only once the query is resolved.
        raise PermanentJobError("params.query: IDENTIFIER(…) is not allowed")
    if kind not in _LISTED or not class_name.startswith("org.apache.spark."):
        raise PermanentJobError(
            f"params.query: only one SELECT over the inputs is allowed, not {kind}"
        )


def _require_table(relation: Node, known: set[str], tables: set[str]) -> None:
    parts = list(_items(relation.multipartIdentifier()))
    if len(parts) != 1 or parts[0].lower() not in known or not relation.options().isEmpty():
        raise PermanentJobError(
            f"params.query: unknown table '{name_of('.'.join(parts))}'; known:"
            f" {', '.join(sorted(tables)) or 'none'}"
        )


def _require_function(parts: list[str], listed: frozenset[str]) -> None:
    """Refuse the function unless it is listed.

    A name of one part is always Spark's own function: a query cannot define others.
    """
    if len(parts) != 1 or parts[0].lower() not in listed:
        raise PermanentJobError(
            f"params.query: function '{name_of('.'.join(parts))}' is not allowed"
        )


def _require_arguments(function: str, arguments: list[Node]) -> None:
    """Refuse options, and a schema that could be JSON: see `TYPE_ARGUMENT`."""
    if len(arguments) > MOST_ARGUMENTS.get(function, len(arguments)):
        raise PermanentJobError(f"params.query: {function} may have no options")
    place = TYPE_ARGUMENT.get(function, len(arguments))
    if len(arguments) <= place:
        return
    kinds = [each.getClass().getSimpleName() for each in arguments]
    schema, kind = arguments[place], kinds[place]
    made_by = ".".join(_items(schema.nameParts())) if kind == "UnresolvedFunction" else ""
    # In a schema that is no JSON, braces stand in quoted names alone.
    is_written = kind == "Literal" and "{" not in str(schema.value())
    # A name could give an argument another place.
    if "NamedArgumentExpression" in kinds or not (made_by.lower() in SCHEMAS or is_written):
        raise PermanentJobError(
            f"params.query: the schema of {function} must be a text such as 'a INT, b STRING', or"
            " schema_of_json(…) or schema_of_csv(…)"
        )


def _items(sequence: Node) -> Iterator[Any]:
    return _remaining(sequence.iterator())


def _remaining(iterator: Node) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()
