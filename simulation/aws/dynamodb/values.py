"""DynamoDB's typed values: validated, normalised, compared, added and measured."""

import re
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from simulation.aws.service import RefusedError

Value = Mapping[str, Any]
Item = dict[str, Value]

MAX_ITEM_BYTES = 400 * 1024
_MAX_DIGITS = 38
_EXACT = Context(prec=200)  # what does not fit is refused, never rounded
_INTEGER = re.compile(r"-?[1-9][0-9]{0,37}|0")
_SETS = ("SS", "NS", "BS")
_ORDERED = ("S", "N", "B")


def invalid(message: str) -> RefusedError:
    return RefusedError("ValidationException", message)


def stored(value: Value) -> Value:
    """A copy as DynamoDB returns it. It is never changed, so items may share it."""
    if len(value) != 1:
        raise invalid(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
            if not value
            else "Supplied AttributeValue has more than one datatypes set, must contain exactly one"
            " of the supported datatypes"
        )
    ((kind, content),) = value.items()
    match kind:
        case "S" | "BOOL" | "B":
            return {kind: content}
        case "N":
            return {kind: _normal(content)}
        case "NULL":
            if content is not True:
                raise invalid(
                    "One or more parameter values were invalid: Null attribute value types must"
                    " have the value of true"
                )
            return {kind: True}
        case "L":
            return {kind: [stored(each) for each in content]}
        case "M":
            return {kind: {name: stored(each) for name, each in content.items()}}
        case "SS" | "NS" | "BS":
            return {kind: _set(kind, content)}
    raise invalid(f"Supplied AttributeValue has an unknown type {kind}")


def _set(kind: str, content: list[Any]) -> list[Any]:
    if not content:
        raise invalid("One or more parameter values were invalid: An string set  may not be empty")
    members = [_normal(each) for each in content] if kind == "NS" else list(content)
    if len(set(members)) < len(members):
        raise invalid(
            f"One or more parameter values were invalid: Input collection {members} contains"
            " duplicates."
        )
    return sorted(members)  # a set has no order; the same in each process


def _normal(text: str) -> str:
    return text if _INTEGER.fullmatch(text) else _written(_number(text))


def _number(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise invalid("The parameter cannot be converted to a numeric value: " + text) from None
    if not number.is_finite() or text != text.strip():
        raise invalid("The parameter cannot be converted to a numeric value: " + text)
    return number


def _written(number: Decimal) -> str:
    number = _EXACT.normalize(number) if number else Decimal(0)
    if len(number.as_tuple().digits) > _MAX_DIGITS:
        raise invalid("Attempting to store more than 38 significant digits in a Number")
    return f"{number:f}"


def plus(left: Value, right: Value, sign: int = 1) -> Value | None:
    """The sum (or difference) of two numbers; None when they are not."""
    if "N" not in left or "N" not in right:
        return None
    first, second = left["N"], right["N"]
    if _INTEGER.fullmatch(first) and _INTEGER.fullmatch(second):
        return {"N": _normal(str(int(first) + sign * int(second)))}
    return {"N": _written(_EXACT.fma(Decimal(sign), _number(second), _number(first)))}


def kind_of(value: Value) -> str:
    return next(iter(value))


def is_equal(left: Value, right: Value) -> bool:
    kind = kind_of(left)
    if kind in _SETS and kind in right:
        return set(left[kind]) == set(right[kind])
    return left == right


def order_of(value: Value) -> tuple[str, Any] | None:
    """The type and a sort key, or None for a type without an order.

    Code points sort strings as UTF-8 bytes do.
    """
    kind = kind_of(value)
    if kind not in _ORDERED:
        return None
    return kind, (Decimal(value[kind]) if kind == "N" else value[kind])


def item_size(item: Item) -> int:
    """Bytes that count towards the 400 KiB of an item."""
    return size_of(item, item)


def size_of(item: Item, names: Iterable[str]) -> int:
    """The same for some of its attributes, which may be absent."""
    return sum(_text_size(name) + _size(item[name]) for name in names if name in item)


def _size(value: Value) -> int:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return _text_size(content)
        case "N":
            return len(content) // 2 + 2
        case "B":
            return len(content)
        case "L":
            return 3 + sum(1 + _size(each) for each in content)
        case "M":
            return 3 + sum(1 + _text_size(name) + _size(each) for name, each in content.items())
        case "SS" | "NS" | "BS":
            return 3 + sum(len(each) for each in content)
    return 1


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
