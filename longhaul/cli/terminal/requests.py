"""Requests as the options of a command describe them."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from longhaul.cli.errors import CommandError, ExitStatus

_NAMED: Final = re.compile(r"[^=:/]*=")


def pairs(
    option: str, texts: Sequence[str] | None, value_of: Callable[[str], Any] = str
) -> dict[str, Any]:
    """The values by their names.

    Raises:
        CommandError: one is no pair, or comes twice.
    """
    values = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandError(f"{option} {text!r}: write NAME=VALUE", ExitStatus.USAGE)
        if name in values:
            raise CommandError(f"{option} {name}: given twice", ExitStatus.USAGE)
        values[name] = value_of(value)
    return values


def request_fields(
    *,
    inputs: Sequence[str] | None,
    output: Sequence[str] | None,
    params: Sequence[str] | None,
    tags: Sequence[str] | None = None,
    **fields: Any,  # noqa: ANN401 - the other options of a request
) -> dict[str, Any]:
    """The request that the options describe; empty without any.

    Raises:
        CommandError: an option is no pair, or comes twice.
    """
    values = {
        **fields,
        **_outputs(output),
        "inputs": pairs("--input", inputs),
        "params": pairs("--param", params, json_or_text),
        "tags": pairs("--tag", tags),
    }
    return {name: value for name, value in values.items() if value not in (None, {})}


def _outputs(texts: Sequence[str] | None) -> dict[str, Any]:
    """The fields `output` and `outputs` of a request, as far as they are given.

    Raises:
        CommandError: one comes twice.
    """
    named, main = list[str](), list[str]()
    for text in texts or ():
        # A path has a slash or a colon before any `=`.
        (named if _NAMED.match(text) else main).append(text)
    if len(main) > 1:
        raise CommandError(
            f"--output {main[1]!r}: a further output has a name: NAME={main[1]}", ExitStatus.USAGE
        )
    fields: dict[str, Any] = {"output": main[0]} if main else {}
    further = pairs("--output", named)
    return fields | ({"outputs": further} if further else {})


def json_or_text(text: str) -> Any:  # noqa: ANN401 - what JSON holds
    """The value that a text is in JSON, or else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
