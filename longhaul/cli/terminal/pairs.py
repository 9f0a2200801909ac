"""Options of the form NAME=VALUE."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from longhaul.cli.errors import CommandError, ExitStatus


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


def json_or_text(text: str) -> Any:  # noqa: ANN401 - what JSON holds
    """The value that a text is in JSON, or else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
