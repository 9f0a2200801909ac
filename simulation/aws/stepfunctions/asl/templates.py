"""Payload templates: the values of Parameters and ResultSelector.

Fields whose names end in `.$` hold a path, a call of States.Format, or the name of the execution.

https://docs.aws.amazon.com/step-functions/latest/dg/input-output-inputpath-params.html
https://docs.aws.amazon.com/step-functions/latest/dg/intrinsic-functions.html
"""

import re
from collections.abc import Callable
from typing import Any

from simulation.aws.stepfunctions.asl.errors import UnsupportedError
from simulation.aws.stepfunctions.asl.paths import Read, compile_path

_FORMAT = re.compile(r"States\.Format\('([^'\\]*)'((?:, *[^,()]+)+)\)")


Fill = Callable[[Any, str], Any]
"""From a state's data and the execution's name to a payload."""


def compile_template(template: object, where: str) -> Fill:
    """The function that fills the template.

    Raises:
        UnsupportedError: a part of the template that is not interpreted.
    """
    match template:
        case dict():
            fields = [_field(name, value, where) for name, value in template.items()]
            return lambda data, execution: {name: fill(data, execution) for name, fill in fields}
        case list():
            items = [
                compile_template(item, f"{where}[{index}]") for index, item in enumerate(template)
            ]
            return lambda data, execution: [fill(data, execution) for fill in items]
        case str() | int() | float() | None:
            return lambda _data, _execution: template
        case _:
            raise UnsupportedError(where, f"{template!r} is not JSON")


def _field(name: str, value: object, where: str) -> tuple[str, Fill]:
    if not name.endswith(".$"):
        return name, compile_template(value, f"{where}.{name}")
    where, name = f"{where}.{name}", name.removesuffix(".$")
    if value == "$$.Execution.Name":
        return name, lambda _data, execution: execution
    is_call = isinstance(value, str) and value.startswith("States.")
    read = _compile_format(value, where) if is_call else compile_path(value, where)
    return name, lambda data, _execution: read(data)


def _compile_format(call: Any, where: str) -> Read:
    match = _FORMAT.fullmatch(call)
    if match is None:
        raise UnsupportedError(
            where, f"{call!r} is not of the form States.Format('…{{}}…', $.path, …)"
        )
    pieces = match[1].split("{}")
    if any("{" in piece or "}" in piece for piece in pieces):
        raise UnsupportedError(where, f"{call!r} has braces other than {{}}")
    arguments = [compile_path(argument.strip(), where) for argument in match[2].split(",")[1:]]
    if len(arguments) != len(pieces) - 1:
        raise UnsupportedError(
            where, f"{call!r} has {len(pieces) - 1} placeholders and {len(arguments)} arguments"
        )

    def make(data: Any) -> str:
        texts = [_formatted(argument(data), where) for argument in arguments]
        return "".join(piece + text for piece, text in zip(pieces, [*texts, ""], strict=True))

    return make


def _formatted(value: object, where: str) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise NotImplementedError(f"{where}: how States.Format writes {value!r} is not known here")
