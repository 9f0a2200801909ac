"""Payload templates: the values of Parameters and ResultSelector.

Fields whose names end in `.$` hold a path, a call of States.Format, or the name of the execution.

https://docs.aws.amazon.com/step-functions/latest/dg/input-output-inputpath-params.html
https://docs.aws.amazon.com/step-functions/latest/dg/intrinsic-functions.html
"""

import re
from collections.abc import Callable
from typing import Any

from simulation.aws.stepfunctions.asl.paths import Read, compile_path

_FORMAT = re.compile(r"States\.Format\('((?:[^'\\{}]|\{\})*)'((?:, *[^,()]+)+)\)")


Fill = Callable[[Any, str], Any]
"""From a state's data and the execution's name to a payload."""


def compile_template(template: object) -> Fill:
    """The function that fills the template.

    Raises:
        ValueError: a part of the template that is not interpreted.
    """
    if isinstance(template, dict):
        fields = [_field(name, value) for name, value in template.items()]
        return lambda data, execution: {name: fill(data, execution) for name, fill in fields}
    if isinstance(template, list):
        items = [compile_template(item) for item in template]
        return lambda data, execution: [fill(data, execution) for fill in items]
    return lambda _data, _execution: template


def _field(name: str, value: object) -> tuple[str, Fill]:
    if not name.endswith(".$"):
        return name, compile_template(value)
    name = name.removesuffix(".$")
    if value == "$$.Execution.Name":
        return name, lambda _data, execution: execution
    is_call = isinstance(value, str) and value.startswith("States.")
    read = _compile_format(value) if is_call else compile_path(value)
    return name, lambda data, _execution: read(data)


def _compile_format(call: Any) -> Read:
    match = _FORMAT.fullmatch(call)
    if match is None:
        raise ValueError(f"{call!r} is not of the form States.Format('…{{}}…', $.path, …)")
    text: str = match[1]
    arguments = [compile_path(argument.strip()) for argument in match[2].split(",")[1:]]
    if text.count("{}") != len(arguments):
        raise ValueError(f"{call!r} has not as many placeholders as arguments")
    return lambda data: text.format(*(_formatted(argument(data)) for argument in arguments))


def _formatted(value: object) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise NotImplementedError(f"how States.Format writes {value!r} is not known here")
