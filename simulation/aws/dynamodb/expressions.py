"""DynamoDB's condition and update expressions: parsed once per text, then evaluated.

    condition   = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation    = [ NOT ] primary
    primary     = "(" condition ")"
                | attribute_exists(path) | attribute_not_exists(path)
                | begins_with(operand, operand) | contains(path, operand)
                | operand ( "=" | "<>" | "<" | "<=" | ">" | ">=" ) operand
                | operand IN (operand, …)
                | operand BETWEEN operand AND operand
    update      = { SET path "=" sum, … | REMOVE path, … | ADD path :value, …
                | DELETE path :value, … }, each once
    sum         = term [ ( "+" | "-" ) term ]
    term        = if_not_exists(path, term) | operand
    operand     = path | :value

Paths are names of attributes, not places inside documents. Those and other functions are refused,
since the product uses none.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Protocol, TypeVar

from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

from simulation.aws.dynamodb import nodes
from simulation.aws.dynamodb.nodes import Environment, ExpressionError, Path
from simulation.aws.dynamodb.values import Item, Value

_TOKEN = re.compile(r"\s*(?:(?P<token>[#:]?[A-Za-z_0-9]+|<>|<=|>=|[=<>()+\-,.\[\]])|(?P<other>\S))")
_NAME = re.compile(r"[A-Za-z][A-Za-z_0-9]*")
_COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
_SECTIONS = ("SET", "REMOVE", "ADD", "DELETE")

T = TypeVar("T")
Change = tuple[Path, nodes.Literal, Callable[[Value | None, Value], Value | None]]
"""Of ADD and DELETE: an attribute, by what it changes, and how."""


class Holds(Protocol):
    def holds(self, item: Item, env: Environment) -> bool: ...


@dataclass(frozen=True)
class Parsed:
    """An expression with the placeholders in its text."""

    names: frozenset[str]
    values: frozenset[str]


@dataclass(frozen=True)
class Condition(Parsed):
    root: Holds

    def holds(self, item: Item, env: Environment) -> bool:
        return self.root.holds(item, env)

    def clauses(self) -> tuple[Holds, ...]:
        """The clauses that AND joins at the top."""
        return self.root.parts if isinstance(self.root, nodes.And) else (self.root,)


@dataclass(frozen=True)
class Update(Parsed):
    sets: tuple[tuple[Path, nodes.Term], ...]
    removes: tuple[Path, ...]
    changes: tuple[Change, ...]

    def targets(self, env: Environment) -> list[str]:
        """The attributes that it writes.

        Raises:
            ExpressionError: two parts write one attribute.
        """
        changed = (path for path, *_ in self.changes)
        paths = [*(path for path, _ in self.sets), *self.removes, *changed]
        names = [path.name(env) for path in paths]
        for name in names:
            if names.count(name) > 1:
                raise ExpressionError(
                    "Two document paths overlap with each other; must remove or rewrite one of"
                    f" these paths; path one: [{name}], path two: [{name}]"
                )
        return names

    def applied(self, item: Item, env: Environment) -> Item:
        """The updated item; every part reads the item before the update."""
        after = dict(item)
        for path, term in self.sets:
            after[path.name(env)] = term.required(item, env)
        for path in self.removes:
            after.pop(path.name(env), None)
        for path, literal, changed in self.changes:
            name = path.name(env)
            value = changed(after.pop(name, None), literal.required(item, env))
            after |= {name: value} if value else {}
        return after


@lru_cache(maxsize=2048)
def condition(text: str) -> Condition:
    parser = _Parser(text)
    root = parser.condition()
    parser.end()
    return Condition(parser.used("#"), parser.used(":"), root)


@lru_cache(maxsize=2048)
def update(text: str) -> Update:
    parser = _Parser(text)
    sections = parser.sections()
    return Update(parser.used("#"), parser.used(":"), *sections)


@cache
def _reserved() -> frozenset[str]:
    """AWS's reserved words, from moto."""
    return frozenset(ReservedKeywords.get_reserved_keywords())


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        for match in _TOKEN.finditer(text.strip()):
            if match["other"]:
                raise ExpressionError(f'Syntax error; token: "{match["other"]}"')
            self._tokens.append(match["token"])
        if not self._tokens:
            raise ExpressionError("The expression can not be empty;")
        self._at = 0

    def used(self, sign: str) -> frozenset[str]:
        return frozenset(token for token in self._tokens if token[0] == sign)

    def condition(self) -> Holds:
        parts = self._list(self._conjunction, "OR")
        return parts[0] if len(parts) == 1 else nodes.Or(parts)

    def _conjunction(self) -> Holds:
        parts = self._list(self._negation, "AND")
        return parts[0] if len(parts) == 1 else nodes.And(parts)

    def _negation(self) -> Holds:
        return nodes.Not(self._negation()) if self._takes("NOT") else self._primary()

    def _primary(self) -> Holds:
        if self._takes("("):
            inner = self.condition()
            self._expect(")")
            return inner
        if self._peek(1) == "(":
            return self._function()
        left = self._operand()
        if self._takes("IN"):
            self._expect("(")
            choices = self._list(self._operand, ",")
            self._expect(")")
            return nodes.Or(tuple(nodes.Comparison("=", left, choice) for choice in choices))
        if self._takes("BETWEEN"):
            low = self._operand()
            self._expect("AND")
            bounds = ((">=", low), ("<=", self._operand()))
            return nodes.And(tuple(nodes.Comparison(sign, left, each) for sign, each in bounds))
        comparator = self._next()
        if comparator not in _COMPARATORS:
            raise self._syntax_error(comparator)
        return nodes.Comparison(comparator, left, self._operand())

    def _function(self) -> Holds:
        name = self._next()
        self._expect("(")
        result: Holds
        match name:
            case "attribute_exists" | "attribute_not_exists":
                result = nodes.Exists(self._path(), wanted=name == "attribute_exists")
            case "begins_with":
                subject = self._operand()
                self._expect(",")
                result = nodes.BeginsWith(subject, self._operand())
            case "contains":
                path = self._path()
                self._expect(",")
                result = nodes.Contains(path, self._operand())
            case _:
                raise ExpressionError(
                    f"Invalid function name; function: {name} (or not known to this fake)"
                )
        self._expect(")")
        return result

    def sections(
        self,
    ) -> tuple[
        tuple[tuple[Path, nodes.Term], ...],
        tuple[Path, ...],
        tuple[Change, ...],
    ]:
        sets: tuple[tuple[Path, nodes.Term], ...] = ()
        removes: tuple[Path, ...] = ()
        changes: tuple[Change, ...] = ()
        seen: set[str] = set()
        while self._at < len(self._tokens):
            token = self._next()
            section = token.upper()
            if section not in _SECTIONS:
                raise self._syntax_error(token)
            if section in seen:
                raise ExpressionError(
                    f'The "{section}" section can only be used once in an update expression;'
                )
            seen.add(section)
            match section:
                case "SET":
                    sets = self._list(self._set, ",")
                case "REMOVE":
                    removes = self._list(self._path, ",")
                case _:
                    pairs = self._list(self._change, ",")
                    changed = nodes.added if section == "ADD" else nodes.deleted
                    changes += tuple((*pair, changed) for pair in pairs)
        return sets, removes, changes

    def _set(self) -> tuple[Path, nodes.Term]:
        path = self._path()
        self._expect("=")
        left = self._term()
        sign = self._peek()
        if sign not in ("+", "-"):
            return path, left
        self._next()
        return path, nodes.Sum(left, self._term(), 1 if sign == "+" else -1)

    def _term(self) -> nodes.Term:
        if self._peek(1) != "(":
            return self._operand()
        if (name := self._next()) != "if_not_exists":
            raise ExpressionError(
                f"Invalid function name; function: {name} (or not known to this fake)"
            )
        self._expect("(")
        path = self._path()
        self._expect(",")
        default = self._term()
        self._expect(")")
        return nodes.IfNotExists(path, default)

    def _change(self) -> tuple[Path, nodes.Literal]:
        path, operand = self._path(), self._operand()
        if not isinstance(operand, nodes.Literal):
            raise ExpressionError("Syntax error; ADD and DELETE take a value")
        return path, operand

    def _operand(self) -> Path | nodes.Literal:
        token = self._peek()
        if token.startswith(":"):
            return nodes.Literal(self._next())
        return self._path()

    def _path(self) -> Path:
        token = self._next()
        if not token.startswith("#"):
            if not _NAME.fullmatch(token):
                raise self._syntax_error(token)
            if token.upper() in _reserved():
                raise ExpressionError(
                    f"Attribute name is a reserved keyword; reserved keyword: {token}"
                )
        if self._peek() in (".", "["):
            raise ExpressionError("this fake knows no paths into documents")
        return Path(token)

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._syntax_error(self._peek())

    def _list(self, element: Callable[[], T], separator: str) -> tuple[T, ...]:
        found = [element()]
        while self._takes(separator):
            found.append(element())
        return tuple(found)

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise self._syntax_error("<EOF>")
        self._at += 1
        return token

    def _takes(self, keyword: str) -> bool:
        if self._peek().upper() != keyword:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._takes(token):
            raise self._syntax_error(self._peek() or "<EOF>")

    def _syntax_error(self, token: str) -> ExpressionError:
        near = " ".join(self._tokens[max(0, self._at - 2) : self._at + 2])
        return ExpressionError(f'Syntax error; token: "{token}", near: "{near}"')
