"""Cuts the values of a stage's secrets out of what a task says. Pure.

They are known to be secrets: nothing of them is shown. In their place stands the name of the
variable.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pydantic import JsonValue

LEAST: Final = 5
"""Characters of a secret that is looked for: a shorter one is a part of ordinary words."""

# Of what is within a secret: a line, a field of its JSON, the path of a URL.
_LEAST_OF_A_PART: Final = 8
# Others have cut it: so much of a longer one is enough.
_BEGINNING: Final = 16
_MAX_LEVELS: Final = 20
# A part with its name, as in `Password=hunter2;` or `PASSWORD: hunter2`.
_NAMED: Final = re.compile(r"([\w-]{1,64})[ \t]{0,8}[:=][ \t]{0,8}[\"']?([^\s&;,\"']+)")
# Names of parts that are secrets however short they are.
_TELLS: Final = re.compile("pass|pwd|secret|token|key|sig|auth|cred", re.IGNORECASE)


class Mask:
    """Cuts secrets out of texts: `mask("password hunter22") == "password [DB_PASSWORD]"`.

    Each is also found as it may be written: escaped as Python, JSON or a URL has it, in base64, a
    line of it, a field of its JSON, a password or the path of its URL, and cut after 16 characters.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """`secrets`: value by name of the variable."""
        # First characters → what may follow, the longest first, and what stands in its place.
        self._begun: dict[str, list[tuple[str, str]]] = {}
        names: dict[str, str] = {}
        for name, value in secrets.items():
            for part, what, least in _parts(name, value):
                for form in _written_forms(part, least):
                    names.setdefault(form, f"[{what}]")
        for form in sorted(names, key=len, reverse=True):
            self._begun.setdefault(form[:LEAST], []).append((form, names[form]))
        self._begins = re.compile(_any_of(self._begun)).search
        self.longest = max(map(len, names), default=0)
        """Characters of the longest form that is looked for."""

    def __call__(self, text: str) -> str:
        return "".join(self.split(text, len(text)))

    def split(self, text: str, end: int) -> tuple[str, str]:
        """The text up to `end` without secrets, and the rest as it is.

        A secret that begins before `end` is cut out whole; one to which more of what is to come may
        belong is left to the rest.
        """
        shown, at, parts = 0, 0, list[str]()
        while self._begun and (begin := self._begins(text, at, end + LEAST - 1)):
            at = begin.start()
            size, name = self._found(text, at)
            if at + size > end > at > len(text) - self.longest:
                end = at
            elif size:
                parts += [text[shown:at], name]
                shown = at + size
            at += size or 1
        end = max(shown, end)
        return "".join([*parts, text[shown:end]]), text[end:]

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


def _any_of(words: Iterable[str]) -> str:
    """A pattern of words of one length. By first characters: else each place is tried with all."""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[:1], []).append(word[1:])
    if "" in rests:
        return ""
    return f"(?:{'|'.join(re.escape(c) + _any_of(rest) for c, rest in rests.items())})"


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
    for named in _NAMED.finditer(value):
        if _TELLS.search(named[1]):
            yield named[2], name, LEAST
    yield from ((each, name, least) for each, least in _parts_of_url(value))
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
                size = LEAST if _TELLS.search(key) else least
                yield from _fields(f"{name}.{key}", each, size, level + 1)


def _parts_of_url(value: str) -> Iterator[tuple[str, int]]:
    """Its password, and what follows its host: the address of a webhook is its secret."""
    try:
        url = urlsplit(value.strip())
    except ValueError:
        return  # it is no URL
    if not url.netloc:
        return
    if url.password:
        yield from ((each, LEAST) for each in (url.password, unquote(url.password)))
    yield url.path, _LEAST_OF_A_PART
    yield f"{url.path}?{url.query}", _LEAST_OF_A_PART


def _written_forms(text: str, least: int) -> set[str]:
    """The text, and as others write it, if that has so many characters."""
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
