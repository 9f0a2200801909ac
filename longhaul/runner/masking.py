"""Cuts the values of a stage's secrets out of what a task says. Pure.

They are known to be secrets: nothing of them is shown. In their place stands the name of the
variable.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

if TYPE_CHECKING:
    from pydantic import JsonValue

LEAST: Final = 5
"""Characters of a secret that is looked for: a shorter one is a part of ordinary words."""

# Of what is within a secret: a line, a field of its JSON, the path of a URL.
_LEAST_OF_A_PART: Final = 8
# A part with its name, as in `Password=hunter2;` or `PASSWORD: hunter2`.
_NAMED: Final = re.compile(r"([\w-]{1,64})[ \t]{0,8}[:=][ \t]{0,8}[\"']?([^\s&;,\"']+)")
# Names of parts that are secrets however short they are.
_TELLS: Final = re.compile("pass|pwd|secret|token|key|sig|auth|cred", re.IGNORECASE)


class Mask:
    """Cuts secrets out of texts: `mask("password hunter22") == "password [DB_PASSWORD]"`.

    Each is also found as it may be written: escaped as Python, JSON or a URL has it, in base64, a
    line of it, a field of its JSON, what a connection string calls a password, and the password or
    the path of its URL.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """`secrets`: value by name of the variable."""
        self._names: dict[str, str] = {}
        for name, value in secrets.items():
            for part, what, least in _parts(name, value, LEAST):
                for form in _written_forms(part, least):
                    self._names.setdefault(form, f"[{what}]")
        # Of two that begin alike the longer one is meant.
        forms = sorted(self._names, key=len, reverse=True)
        self._found = re.compile("|".join(map(re.escape, forms)))
        self.longest = max(map(len, forms), default=0)
        """Characters of the longest form that is looked for."""

    def __call__(self, text: str) -> str:
        if not self._names:
            return text
        return self._found.sub(lambda found: self._names[found[0]], text)

    def document(self, value: "JsonValue") -> "JsonValue":
        """The document, with secrets cut out of its texts and keys. Numbers stay."""
        match value:
            case str():
                return self(value)
            case list():
                return [self.document(each) for each in value]
            case dict():
                return {self(key): self.document(each) for key, each in value.items()}
        return value


NO_MASK: Final = Mask({})


def _parts(name: str, value: str, least: int) -> Iterator[tuple[str, str, int]]:
    """What is looked for, what it is called, and from how many characters on."""
    yield value, name, least
    yield value.strip(), name, least
    for line in value.splitlines():
        yield line.strip(), name, _LEAST_OF_A_PART
    for named in _NAMED.finditer(value):
        if _TELLS.search(named[1]):
            yield named[2], name, LEAST
    yield from ((each, name, size) for each, size in _parts_of_url(value))
    with suppress(ValueError, RecursionError):  # it is no JSON
        yield from _fields(name, json.loads(value), _LEAST_OF_A_PART)


def _fields(name: str, value: "JsonValue", least: int) -> Iterator[tuple[str, str, int]]:
    match value:
        case str():
            # It may be a key of many lines, a URL, or JSON itself.
            yield from _parts(name, value, least)
        case bool() | None:
            return
        case int() | float():
            yield str(value), name, least
        case list():
            for each in value:
                yield from _fields(name, each, least)
        case dict():
            for key, each in value.items():
                size = LEAST if _TELLS.search(key) else least
                yield from _fields(f"{name}.{key}", each, size)


def _parts_of_url(value: str) -> Iterator[tuple[str, int]]:
    """Its password, and what follows its host: the address of a webhook is its secret."""
    with suppress(ValueError):  # it is no URL
        url = urlsplit(value.strip())
        if url.netloc:
            yield url.password or "", LEAST
            yield unquote(url.password or ""), LEAST
            yield url.path, _LEAST_OF_A_PART
            yield f"{url.path}?{url.query}", _LEAST_OF_A_PART


def _written_forms(text: str, least: int) -> set[str]:
    """The text, and as others write it, if that has that many characters."""
    content = text.encode("utf-8", "surrogatepass")
    once = _escaped(text)
    # The text of an error may be a value in another text.
    twice = set[str]().union(*map(_escaped, once))
    in_urls = {quote(content, safe=""), quote(content), quote_plus(content)}
    forms = {text, *once, *twice, *in_urls, repr(content)[2:-1], *_in_base64(content)}
    return {each for each in forms if len(each) >= least} if len(text) >= least else set()


def _escaped(text: str) -> set[str]:
    """As Python and JSON write it between quotes."""
    return {
        repr(text)[1:-1],
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
    }


def _in_base64(content: bytes) -> Iterator[str]:
    """As it is within what was encoded, whatever comes before: `user:` before a password."""
    for before in range(3):
        size = before + len(content)
        # Characters that other bytes decide, too, are left out.
        written = b64encode(bytes(before) + content).decode()[(0, 2, 3)[before] : size * 8 // 6]
        yield written
        yield written.replace("+", "-").replace("/", "_")
