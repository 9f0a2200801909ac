"""Paths (`$`, `$.name.name`, `$[0]` and mixes of these), and reference paths for writing.

https://docs.aws.amazon.com/step-functions/latest/dg/amazon-states-language-paths.html
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from simulation.aws.stepfunctions.asl.limits import runtime_error

Read = Callable[[Any], Any]
Write = Callable[[Any, Any], Any]
"""From the state's input and a value to a copy of the input that has the value."""

_PATH = re.compile(r"\$((\.[A-Za-z_]\w*)|(\[\d+\]))*", re.ASCII)
_REFERENCE = re.compile(r"\$(\.[A-Za-z_]\w*)*", re.ASCII)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]", re.ASCII)


def compile_path(path: object) -> Read:
    """A function that reads the path; a path to nothing fails the execution (States.Runtime)."""
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no path of the forms `$`, `$.name`, `$[0]`")
    steps = [name or int(index) for name, index in _STEP.findall(path)]

    def read(data: Any) -> Any:
        found = data
        try:
            for step in steps:
                found = found[step]
        except (KeyError, IndexError, TypeError):
            raise runtime_error(f"The JSONPath '{path}' could not be found in the input") from None
        return found

    return read


def compile_result_path(path: object) -> Write:
    """`$`, the default, replaces the input."""
    if not isinstance(path, str) or not _REFERENCE.fullmatch(path):
        raise ValueError(f"{path!r} is no reference path of the form `$.name`")
    steps = path.split(".")[1:]
    return lambda data, result: _put(data, steps, result)


def _put(data: Any, steps: list[str], result: Any) -> Any:
    if not steps:
        return result
    if not isinstance(data, Mapping):
        # States.ResultPathMatchFailure on AWS. No state of the product can raise it: an input
        # without fields fails earlier.
        raise NotImplementedError("a result is to be put into an input that is no object")
    first, *rest = steps
    return {**data, first: _put(data.get(first, {}), rest, result)}
