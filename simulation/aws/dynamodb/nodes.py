"""The nodes of a parsed expression."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from simulation.aws.dynamodb.values import Item, Value, is_equal, kind_of, order_of, plus

_ORDER: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


class ExpressionError(Exception):
    """DynamoDB refuses the expression or its value."""


class Environment(NamedTuple):
    """The values of a request's placeholders."""

    names: Mapping[str, str]
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Path:
    token: str  # a name, or a placeholder

    def name(self, env: Environment) -> str:
        return env.names[self.token] if self.token[0] == "#" else self.token

    def value(self, item: Item, env: Environment) -> Value | None:
        return item.get(self.name(env))

    def required(self, item: Item, env: Environment) -> Value:
        return _required(self.value(item, env))


@dataclass(frozen=True, slots=True)
class Literal:
    placeholder: str

    def value(self, item: Item, env: Environment) -> Value | None:  # noqa: ARG002 - as the other operands
        return env.values[self.placeholder]

    def required(self, item: Item, env: Environment) -> Value:
        return _required(self.value(item, env))


Operand = Path | Literal


@dataclass(frozen=True, slots=True)
class IfNotExists:
    path: Path
    default: "Term"

    def required(self, item: Item, env: Environment) -> Value:
        found = self.path.value(item, env)
        return self.default.required(item, env) if found is None else found


@dataclass(frozen=True, slots=True)
class Sum:
    left: "Term"
    right: "Term"
    sign: int

    def required(self, item: Item, env: Environment) -> Value:
        total = plus(self.left.required(item, env), self.right.required(item, env), self.sign)
        if total is None:
            raise ExpressionError("An operand in the update expression has an incorrect data type")
        return total


Term = Path | Literal | IfNotExists | Sum


def _required(value: Value | None) -> Value:
    if value is None:
        raise ExpressionError(
            "The provided expression refers to an attribute that does not exist in the item"
        )
    return value


def added(before: Value | None, by: Value) -> Value:
    """The result of ADD: a sum of numbers, a union of sets, or the value for a new attribute."""
    kind = kind_of(by)
    if kind not in ("N", "SS", "NS", "BS"):
        raise ExpressionError(
            f"Incorrect operand type for operator or function; operator: ADD, operand type: {kind}"
        )
    if before is None:
        return by
    if kind != kind_of(before):
        raise ExpressionError("An operand in the update expression has an incorrect data type")
    if kind == "N":
        return plus(before, by) or by
    return {kind: sorted({*before[kind], *by[kind]})}


def deleted(before: Value | None, by: Value) -> Value | None:
    """The result of DELETE: what is left of a set; None where nothing is."""
    kind = kind_of(by)
    if kind not in ("SS", "NS", "BS") or (before and kind != kind_of(before)):
        raise ExpressionError("An operand in the update expression has an incorrect data type")
    left = sorted({*before[kind]} - {*by[kind]}) if before else ()
    return {kind: left} if left else None


@dataclass(frozen=True, slots=True)
class Comparison:
    comparator: str
    left: Operand
    right: Operand

    def holds(self, item: Item, env: Environment) -> bool:
        left, right = self.left.value(item, env), self.right.value(item, env)
        if self.comparator == "=":
            return left is not None and right is not None and is_equal(left, right)
        if self.comparator == "<>":  # true also when one is missing
            return left is None or right is None or not is_equal(left, right)
        self._refuse_unordered(env)
        first = None if left is None else order_of(left)
        second = None if right is None else order_of(right)
        if first is None or second is None or first[0] != second[0]:
            return False
        return _ORDER[self.comparator](first[1], second[1])

    def _refuse_unordered(self, env: Environment) -> None:
        for operand in (self.left, self.right):
            if isinstance(operand, Literal) and order_of(env.values[operand.placeholder]) is None:
                kind = kind_of(env.values[operand.placeholder])
                raise ExpressionError(
                    "Incorrect operand type for operator or function;"
                    f" operator: {self.comparator}, operand type: {kind}"
                )


@dataclass(frozen=True, slots=True)
class Exists:
    path: Path
    wanted: bool

    def holds(self, item: Item, env: Environment) -> bool:
        return (self.path.name(env) in item) is self.wanted


@dataclass(frozen=True, slots=True)
class BeginsWith:
    subject: Operand
    prefix: Operand

    def holds(self, item: Item, env: Environment) -> bool:
        subject, prefix = self.subject.value(item, env), self.prefix.value(item, env)
        for operand, value in ((self.subject, subject), (self.prefix, prefix)):
            # DynamoDB looks at the types of the request's values before it looks at the item.
            if isinstance(operand, Literal) and value is not None and not value.keys() & {"S", "B"}:
                raise ExpressionError(
                    "Incorrect operand type for operator or function; operator or function:"
                    f" begins_with, operand type: {next(iter(value))}"
                )
        if subject is None or prefix is None:
            return False
        return any(
            kind in subject and kind in prefix and subject[kind].startswith(prefix[kind])
            for kind in "SB"
        )


@dataclass(frozen=True, slots=True)
class Contains:
    """Of a set of strings, the only thing that the product looks through."""

    path: Path
    member: Operand

    def holds(self, item: Item, env: Environment) -> bool:
        found, member = self.path.value(item, env), self.member.value(item, env)
        return (
            found is not None
            and member is not None
            and "SS" in found
            and member.get("S") in found["SS"]
        )


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Any, ...]

    def holds(self, item: Item, env: Environment) -> bool:
        return all(part.holds(item, env) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Any, ...]

    def holds(self, item: Item, env: Environment) -> bool:
        return any(part.holds(item, env) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    part: Any

    def holds(self, item: Item, env: Environment) -> bool:
        return not self.part.holds(item, env)
