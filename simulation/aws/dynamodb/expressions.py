"""DynamoDB's condition and update expressions: compiled once per text, then evaluated.

    condition = comparisons (= <> < <= > >= BETWEEN), attribute_exists, attribute_not_exists,
                begins_with and contains, joined by AND and OR
    update    = { SET path "=" sum, … | REMOVE path, … | ADD path :value, …
                | DELETE path :value, … }, each once
    sum       = term [ ( "+" | "-" ) term ]
    term      = if_not_exists(path, term) | path | :value

The operators bind as those of Python, so Python parses what has been translated to it. Paths are
names of attributes, not places inside documents. Other functions are refused, since the product
uses none.
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

from simulation.aws.dynamodb.tables import Item, Value, invalid, kind_of, order_of, plus, stored
from simulation.aws.service import RefusedError

_BETWEEN = re.compile(r"(\S+) BETWEEN (\S+) AND (\S+)")
_TOKEN = re.compile(r"\s*([#:]?[A-Za-z_0-9]+|<>|<=|>=|[=<>()+\-,])|\s*(\S)")
_PYTHON = {"=": "==", "<>": "!=", "AND": "and", "OR": "or"}
_SECTION = re.compile(r"(?<![#:\w])(SET|REMOVE|ADD|DELETE)\s", re.IGNORECASE)
_COMMA = re.compile(r",(?![^(]*\))")  # outside of brackets
_PLACEHOLDER = re.compile(r"[#:]\w+")
_EQUALS_VALUE = re.compile(r"(#?\w+) = (:\w+)")
_ORDER: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Lt: lt,
    ast.LtE: le,
    ast.Gt: gt,
    ast.GtE: ge,
}
_WRONG_TYPE = "An operand in the update expression has an incorrect data type"


class Environment(NamedTuple):
    """The values of a request's placeholders."""

    names: Mapping[str, str]
    values: Mapping[str, Value]


Name = Callable[[Environment], str]
Read = Callable[[Item, Environment], Value | None]
Holds = Callable[[Item, Environment], bool]


@dataclass(frozen=True)
class Update:
    """What it changes: an attribute's name, and from the item to its new value; None removes it."""

    changes: Sequence[tuple[Name, Read]]

    def targets(self, env: Environment) -> list[str]:
        """The attributes that it writes.

        Raises:
            RefusedError: two parts write one attribute.
        """
        names = [name(env) for name, _ in self.changes]
        if len(set(names)) < len(names):
            raise invalid(f"Two document paths overlap with each other: {names}")
        return names

    def applied(self, item: Item, env: Environment) -> Item:
        """The updated item; every part reads the item before the update."""
        after = dict(item)
        for name, read in self.changes:
            value = read(item, env)
            if value is None:
                after.pop(name(env), None)
            else:
                after[name(env)] = value
        return after


def environment(request: Mapping[str, Any], *texts: str | None) -> Environment:
    """The request's placeholders: all that are used must be given, and all given must be used."""
    names = request.get("ExpressionAttributeNames", {})
    values = request.get("ExpressionAttributeValues", {})
    used, given = _placeholders(*texts), names.keys() | values.keys()
    if missing := used - given:
        what = "name used in the document path"
        if min(missing)[0] == ":":
            what = "value used in expression"
        raise invalid(
            f"Invalid expression: An expression attribute {what} is not defined;"
            f" attribute: {min(missing)}"
        )
    if unused := given - used:
        raise invalid(
            f"Value provided unused in expressions: keys: {{{', '.join(sorted(unused))}}}"
        )
    return Environment(names, {name: stored(value) for name, value in values.items()})


@lru_cache(maxsize=2048)
def _placeholders(*texts: str | None) -> frozenset[str]:
    return frozenset(token for text in texts if text for token in _PLACEHOLDER.findall(text))


def hash_value(text: str, env: Environment, hash_key: str) -> Any:
    """The partition of a query, whose condition must set the partition key equal to a value."""
    for path, value in _EQUALS_VALUE.findall(text):
        if env.names.get(path, path) == hash_key:
            return next(iter(env.values[value].values()))
    raise invalid(f"Query condition missed key schema element: {hash_key}")


@lru_cache(maxsize=2048)
def condition(text: str) -> Holds:
    return _condition(_parsed(_BETWEEN.sub(r"(\1 >= \2 AND \1 <= \3)", text)))


@lru_cache(maxsize=2048)
def update(text: str) -> Update:
    before, *parts = _SECTION.split(text)
    if not parts or before.strip():
        _parsed(text)  # refuses an empty one
        raise _syntax_error(before)
    changes: list[tuple[Name, Read]] = []
    for section, clauses in zip(parts[::2], parts[1::2], strict=True):
        kind = section.upper()
        changes += [_change(kind, clause.strip()) for clause in _COMMA.split(clauses)]
    return Update(changes)


def _change(kind: str, clause: str) -> tuple[Name, Read]:
    path, separator, rest = clause.partition("=" if kind == "SET" else " ")
    name = _name(_parsed(path))
    if kind == "REMOVE" and not rest:
        return name, lambda _item, _env: None
    if not separator:
        raise _syntax_error(clause)
    term = _term(_parsed(rest))
    if kind == "SET":
        return name, term
    effect = _added if kind == "ADD" else _deleted
    return name, lambda item, env: effect(item.get(name(env)), _required(term(item, env)))


def _parsed(text: str) -> ast.expr:
    """The tree of what is left when an expression is written in Python."""
    words = []
    for word, other in _TOKEN.findall(text):
        if other:
            raise _syntax_error(other)
        is_placeholder = word[0] in "#:"
        words.append(f"given[{word!r}]" if is_placeholder else _PYTHON.get(word.upper(), word))
    if not words:
        raise invalid("The expression can not be empty;")
    try:
        return ast.parse(" ".join(words), mode="eval").body
    except SyntaxError:
        raise _syntax_error(text) from None


def _condition(node: ast.expr) -> Holds:
    match node:
        case ast.BoolOp():
            parts = [_condition(each) for each in node.values]
            if isinstance(node.op, ast.And):
                return lambda item, env: all(part(item, env) for part in parts)
            return lambda item, env: any(part(item, env) for part in parts)
        case ast.Compare(left, [sign], [right]):
            return _comparison(sign, left, right)
        case ast.Call(ast.Name(function), arguments):
            return _function(function, arguments)
    raise _syntax_error(ast.unparse(node))


def _comparison(sign: ast.cmpop, left: ast.expr, right: ast.expr) -> Holds:
    first, second = _operand(left), _operand(right)
    if isinstance(sign, ast.Eq):
        return lambda item, env: (a := first(item, env)) is not None and a == second(item, env)
    if isinstance(sign, ast.NotEq):  # true also when one is missing
        return lambda item, env: (a := first(item, env)) is None or a != second(item, env)
    order = _ORDER[type(sign)]

    def holds(item: Item, env: Environment) -> bool:
        a, b = first(item, env), second(item, env)
        if a is None or b is None or kind_of(a) != kind_of(b):
            return False
        return order(order_of(a), order_of(b))

    return holds


def _function(name: str, arguments: list[ast.expr]) -> Holds:
    match name, arguments:
        case "attribute_exists", [path]:
            present = _name(path)
            return lambda item, env: present(env) in item
        case "attribute_not_exists", [path]:
            absent = _name(path)
            return lambda item, env: absent(env) not in item
        case "contains", [path, member]:  # of a set of strings
            found, wanted = _operand(path), _operand(member)
            return lambda item, env: (
                (wanted(item, env) or {}).get("S") in (found(item, env) or {}).get("SS", ())
            )
        case "begins_with", [subject, prefix]:
            text, begin = _operand(subject), _operand(prefix)

            def holds(item: Item, env: Environment) -> bool:
                a, b = text(item, env) or {}, begin(item, env) or {}
                return "S" in a and "S" in b and a["S"].startswith(b["S"])

            return holds
    raise _unknown_function(name)


def _term(node: ast.expr) -> Read:
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
            first, second = _term(left), _term(right)
            factor = 1 if isinstance(sign, ast.Add) else -1
            return lambda item, env: _sum(first(item, env), second(item, env), factor)
        case ast.Call(ast.Name("if_not_exists"), [path, default]):
            found, otherwise = _operand(path), _term(default)
            return lambda item, env: found(item, env) or otherwise(item, env)
        case ast.Call(ast.Name(function)):
            raise _unknown_function(function)
    read = _operand(node)
    return lambda item, env: _required(read(item, env))


def _sum(left: Value | None, right: Value | None, factor: int) -> Value:
    total = plus(_required(left), _required(right), factor)
    if total is None:
        raise invalid(_WRONG_TYPE)
    return total


def _operand(node: ast.expr) -> Read:
    match node:
        case ast.Subscript(slice=ast.Constant(str(token))) if token[0] == ":":
            return lambda _item, env: env.values[token]
    name = _name(node)
    return lambda item, env: item.get(name(env))


def _name(node: ast.expr) -> Name:
    match node:
        case ast.Subscript(slice=ast.Constant(str(token))) if token[0] == "#":
            return lambda env: env.names[token]
        case ast.Name(name) if name.upper() in _reserved():
            raise invalid(f"Attribute name is a reserved keyword; reserved keyword: {name}")
        case ast.Name(name):
            return lambda _env: name
    raise _syntax_error(ast.unparse(node))


@cache
def _reserved() -> frozenset[str]:
    """AWS's reserved words, from moto."""
    return frozenset(ReservedKeywords.get_reserved_keywords())


def _required(value: Value | None) -> Value:
    if value is None:
        raise invalid(
            "The provided expression refers to an attribute that does not exist in the item"
        )
    return value


def _added(before: Value | None, by: Value) -> Value:
    """The result of ADD: a sum of numbers, a union of sets, or the value for a new attribute."""
    kind = kind_of(by)
    if kind not in ("N", "SS"):
        raise invalid(
            f"Incorrect operand type for operator or function; operator: ADD, operand type: {kind}"
        )
    if before is None:
        return by
    if kind == "N":
        return _sum(before, by, 1)
    return {"SS": sorted({*before["SS"], *by["SS"]})}


def _deleted(before: Value | None, by: Value) -> Value | None:
    """The result of DELETE: what is left of a set of strings; None where nothing is."""
    left = sorted({*before["SS"]} - {*by["SS"]}) if before else ()
    return {"SS": left} if left else None


def _syntax_error(near: str) -> RefusedError:
    return invalid(f'Syntax error; near: "{near}"')


def _unknown_function(name: str) -> RefusedError:
    return invalid(f"Invalid function name; function: {name} (or not known to this fake)")
