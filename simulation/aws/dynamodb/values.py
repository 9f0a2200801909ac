"""DynamoDB's typed values: validated, normalised, compared, added and measured.

Those of the product: texts, numbers, booleans, sets of texts, lists and maps.
"""

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


def invalid(message: str) -> RefusedError:
    return RefusedError("ValidationException", message)


def stored(value: Value) -> Value:
    """A copy as DynamoDB returns it. It is never changed, so items may share it."""
    if len(value) != 1:
        raise invalid(
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of"
            " the supported datatypes"
        )
    ((kind, content),) = value.items()
    match kind:
        case "S" | "BOOL":
            return {kind: content}
        case "N":
            return {kind: _normal(content)}
        case "L":
            return {kind: [stored(each) for each in content]}
        case "M":
            return {kind: {name: stored(each) for name, each in content.items()}}
        case "SS" if content:
            return {kind: sorted(set(content))}  # a set has no order; the same in each process
        case "SS":
            raise invalid(
                "One or more parameter values were invalid: An string set  may not be empty"
            )
    raise NotImplementedError(f"this fake knows no values of the type {kind}")


def _normal(text: str) -> str:
    return text if _INTEGER.fullmatch(text) else _written(_number(text))


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise invalid("The parameter cannot be converted to a numeric value: " + text) from None


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


def order_of(value: Value) -> Any:
    """A sort key among values of its type. Code points sort strings as UTF-8 bytes do."""
    return Decimal(value["N"]) if "N" in value else value[kind_of(value)]


def size_of(item: Item, names: Iterable[str]) -> int:
    """Bytes of some attributes, which may be absent, that count towards the 400 KiB of an item."""
    return sum(_text_size(name) + _size(item[name]) for name in names if name in item)


def _size(value: Value) -> int:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return _text_size(content)
        case "N":
            return len(content) // 2 + 2
        case "L":
            return 3 + sum(1 + _size(each) for each in content)
        case "M":
            return 3 + sum(1 + _text_size(name) + _size(each) for name, each in content.items())
        case "SS":
            return 3 + sum(len(each) for each in content)
    return 1


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
