"""Cuts the values of a stage's secrets out of what a task says. Pure.

Unlike the values of a message (`domain.quoting`), they are known to be secrets: nothing of them is
shown, and shorter ones count. In their place stands the name of the variable.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue

from longhaul.domain.quoting import says_secret, secret_parts, written_forms

LEAST: Final = 5
"""Characters of a secret that is looked for: a shorter one is a part of ordinary words."""

# Of what is within a secret: a line, a field of its JSON, a part of a URL.
_LEAST_OF_A_PART: Final = 8
# Others have cut it: so much of a longer one is enough.
_BEGINNING: Final = 16
_MAX_LEVELS: Final = 20
# A part with its name, as in `Password=hunter2;` or `PASSWORD: hunter2`.
_NAMED: Final = re.compile(r"([\w-]{1,64})[ \t]{0,8}[:=][ \t]{0,8}[\"']?([^\s&;,\"']+)")


class Mask:
    """Cuts secrets out of texts: `mask("password hunter22") == "password [DB_PASSWORD]"`.

    Each is also found as it may be written: escaped as Python, JSON, HTML or a URL has it, in
    base64, a line of it, a field of its JSON, a password in its URL, and cut after 16 characters.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """`secrets`: value by name of the variable."""
        # First characters → what may follow, the longest first, and what stands in its place.
        self._begun: dict[str, list[tuple[str, str]]] = {}
        names: dict[str, str] = {}
        for name, value in secrets.items():
            for part, what, least in _parts(name, value):
                for form in written_forms(part, least):
                    names.setdefault(form, f"[{what}]")
        for form in sorted(names, key=len, reverse=True):
            self._begun.setdefault(form[:LEAST], []).append((form, names[form]))

    def __call__(self, text: str) -> str:
        shown, at, parts = 0, 0, list[str]()
        while self._begun and at <= len(text) - LEAST:
            size, name = self._found(text, at)
            if size:
                parts += [text[shown:at], name]
                shown = at + size
            at += size or 1
        return "".join([*parts, text[shown:]]) if parts else text

    def document(self, value: JsonValue) -> JsonValue:
        """The document, with secrets cut out of its texts and keys. Numbers stay."""
        match value:
            case str():
                return self(value)
            case list():
                return [self.document(each) for each in value]
            case dict():
                return {self(key): self.document(each) for key, each in value.items()}
        return value

    def _found(self, text: str, at: int) -> tuple[int, str]:
        """How much of the text at this place is of a secret, and of which; 0 for nothing."""
        best = (0, "")
        for form, name in self._begun.get(text[at : at + LEAST], ()):
            if text.startswith(form, at):
                return max(best, (len(form), name))
            if len(form) > _BEGINNING and text.startswith(form[:_BEGINNING], at):
                best = max(best, (_alike(form, text[at : at + len(form)]), name))
        return best


NO_MASK: Final = Mask({})


def _alike(one: str, other: str) -> int:
    """With how many same characters both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _parts(
    name: str, value: str, least: int = LEAST, level: int = 0
) -> Iterator[tuple[str, str, int]]:
    """What is looked for, what it is called, and from how many characters on."""
    yield value, name, least
    yield value.strip(), name, least
    for line in value.splitlines() if "\n" in value else ():
        yield line.strip(), name, _LEAST_OF_A_PART
    for part in secret_parts(value):
        yield part, name, _LEAST_OF_A_PART
    for named in _NAMED.finditer(value):
        if says_secret(named[1]):
            yield named[2], name, LEAST
    try:
        if password := urlsplit(value).password:
            yield from ((each, name, LEAST) for each in (password, unquote(password)))
    except ValueError:
        pass  # it is no URL
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return
    if isinstance(document, str | list | dict):
        yield from _fields(name, document, _LEAST_OF_A_PART, level)


def _fields(name: str, value: JsonValue, least: int, level: int) -> Iterator[tuple[str, str, int]]:
    if level > _MAX_LEVELS:
        return
    match value:
        case str():
            # It may be a key of many lines, a URL, or JSON itself.
            yield from _parts(name, value, least, level + 1)
        case bool() | None:
            return
        case int() | float():
            yield str(value), name, least
        case list():
            for each in value:
                yield from _fields(name, each, least, level + 1)
        case dict():
            for key, each in value.items():
                size = LEAST if says_secret(key) else least
                yield from _fields(f"{name}.{key}", each, size, level + 1)
