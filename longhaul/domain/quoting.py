"""How a reason quotes what came with a message, which may hold a secret. Pure.

Reasons go to rows, dead letters and logs, which more people read than the queue. A field is named;
of its value no more is quoted than a person needs to find it.
"""

import html
import json
import re
import sys
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, unquote_plus

from pydantic import JsonValue

_MAX_QUOTED = 8
_MAX_NAME = 24
# A shorter value is likely to be an ordinary word, whose place in a text means nothing.
_MIN_MASKED = 8
# How a masked value begins.
_BEGINNING = 4
# A list of numbered values: from so many steps on, only its ends. What separates them is short.
_MIN_RUN = 3
_MAX_GAP = 8
# In how many ways `written_forms` may write a value, at most.
_MAX_SPELLINGS = 40
# A numbered value, or such a list, as `without_values` writes them.
_NUMBERED = (
    r"(?P<one>.{4})…\((?P<first>\d{1,7}) of (?P<of>\d{1,7})\)"
    r"(?:(?P<gap>.{1,8}?)(?P<more>\d{1,7}) more(?P=gap)(?P=one)…\((?P<last>\d{1,7}) of (?P=of)\))?"
)
# So much of a longer one is enough.
_MAX_BEGINNING = 16
_MAX_JOINED = 200
# The texts in a query or a script's arguments, and what begins a comment or a name in backquotes. A
# text whose quote is not closed goes to the end, so that no part is read twice.
_TOKEN = re.compile(
    r"--|/\*|`|(?P<dollars>\$\w*\$)"
    r"|'(?P<one>(?:[^'\\]|\\.|'')*)'?|\"(?P<two>(?:[^\"\\]|\\.|\"\")*)\"?",
    re.DOTALL,
)
_ENDS = {"--": re.compile(r"[\r\n]"), "`": re.compile("`"), "/*": re.compile(r"/\*|\*/")}
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_QUOTES = re.compile(r"['\"\\]")
# Nothing escapes these but base64.
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]+")
# How a URL has each byte, and what it leaves beside these: nothing, a path's slashes, or all that
# it may have.
_IN_URLS = tuple(
    (
        re.compile(f"[{re.escape(left)}]" if left else ""),
        [chr(n) if _UNRESERVED.match(chr(n)) or chr(n) in left else code % n for n in range(256)],
    )
    for left, code in (
        ("", "%%%02X"),
        ("", "%%%02x"),
        ("/", "%%%02X"),
        ("!#$%&'()*+,/:;=?@[]", "%%%02X"),
    )
)
_JAVA = re.compile(r"\\u([0-9a-f]{4})")
# A line of a query that is a name alone is no secret: errors name columns.
_NAMES = re.compile(r"[\w.,()`*]*")
# Parts of a text that are likely to be secrets. Numbers of repeats are bounded: a hostile text must
# not take the square of its length.
_TELLING = r"(?:pass|pwd|secret|token|key|sig|auth|cred)"
_TELLS = re.compile(_TELLING, re.IGNORECASE)
# A path in a bucket, and a table without a filter.
_PLACE = re.compile(r"(?:s3|table|file)://[^?#@:;&=]*(?:@\d+)?")
_SECRETS = (
    # The value of a header, a setting, or an option of a command.
    re.compile(
        rf"{_TELLING}[\w-]{{0,32}}[ \t]{{0,8}}[:=][ \t]{{0,8}}[\"']?([^\s&;,\"']{{8,}})",
        re.IGNORECASE,
    ),
    re.compile(rf"--?[\w-]{{0,32}}{_TELLING}[\w-]{{0,32}}[ \t]{{1,8}}(\S+)", re.IGNORECASE),
    re.compile(r"\b(?:bearer|basic|token|digest)[ \t]{1,8}([^\s,\"']{8,})", re.IGNORECASE),
    # The password of a URL, which may have an @ itself; its path with all that follows; and the
    # values of its query.
    re.compile(r"://[^\s:/@]{0,128}:([^\s@]{1,256})@"),
    re.compile(r"://[^\s:/@]{0,128}:(\S{1,256})@"),
    re.compile(r"://[^\s/]{1,256}(/[^\s\"']+)"),
    re.compile(r"[?&#;][\w.%-]{1,64}=([^\s&#;\"']{8,})"),
)
_PARTS = re.compile("[/:?]+")
_CARD = re.compile(r"(?<!\d)\d(?:[ -]?\d){11,18}(?!\d)")
# Letters and digits at random. With underscores it may be a name in a query, unless it has capital
# and small letters.
_WORD = re.compile(r"[A-Za-z0-9_+/=~.-]{16,}")
_DIGIT, _SMALL, _CAPITAL = map(re.compile, ("[0-9]", "[a-z]", "[A-Z]"))
# Python writes no longer number, so no error repeats one.
_MAX_NUMBER = 10**4300


def cut(value: str) -> str:
    """A value as a reason may show it: its beginning, never more than half of it."""
    shown = _plain(value[: min(_MAX_QUOTED, len(value) // 2)])
    return f"'{shown}…'"


def name_of(value: str) -> str:
    """A name that came with a message, such as a JSON key: whole if it is short.

    Escaped, so that it cannot forge a line of a log.
    """
    return _plain(value) if len(value) <= _MAX_NAME else f"{_plain(value[:_MAX_NAME])}…"


def without_values(text: str, document: JsonValue) -> str:
    """The text with each value of the document cut where the text repeats it.

    Only texts of eight characters or more count: those of the document, its keys, its numbers, and
    within them lines, what is in quotes, such as the literals of a query, and what looks like a
    secret, such as the password in a URL; each also as an error may write it: escaped as Python,
    JSON, HTML or a URL has it, or in base64. The first 16 characters of a text are enough: others
    have cut it.

    Values that begin alike are numbered in the document's order, as in `2026…(3 of 31)`; a list of
    them shows its first and its last, and how many are between.

    Give the whole of an error: half a value is not found. The time grows with the text and with the
    document, not with their product.
    """
    meant: dict[str, str | None] = {}
    numbers = _Numbers()
    for found, value in _texts(document):
        numbers.add(value)
        for written in written_forms(found):
            if meant.get(written) is None:
                meant[written] = value
    # Of two values one may be the other's, escaped: what is written as a value is that value.
    meant.update({value: value for value in numbers.values if value in meant})
    whole: set[str] = set()
    begun: dict[str, list[str]] = {}
    for written in sorted(meant):
        if len(written) <= _MAX_BEGINNING:
            whole.add(written)
        else:
            begun.setdefault(written[:_MAX_BEGINNING], []).append(written)
    starts = {written[:_MIN_MASKED] for written in (*whole, *begun)}
    masks, at = [], 0
    while starts and at <= len(text) - _MIN_MASKED:
        size = _repeated(text, at, whole, begun) if text[at : at + _MIN_MASKED] in starts else 0
        if size:
            one = _only_one(text[at : at + size], meant, begun)
            masks.append(_Mask(at, at + size, text[at : at + _BEGINNING], *numbers.of(one)))
        at += size or 1
    return _masked(text, masks)


def without_secrets(document: JsonValue, name: str = "") -> JsonValue:
    """The document with what looks like a secret cut to its beginning.

    That is each part of a text that `without_values` would take for one, and each value under a
    `name` that says so, such as `api_token`. Where something is, is no secret.
    """
    match document:
        case str() if _TELLS.search(name):
            return f"{document[:_BEGINNING]}…" if len(document) >= _MIN_MASKED else "…"
        case str() if _PLACE.fullmatch(document):
            return document
        case str():
            for part in sorted(set(secret_parts(document)), key=len, reverse=True):
                document = document.replace(part, f"{part[:_BEGINNING]}…")
            return document
        case bool() | None:
            return document
        case int() | float() if _TELLS.search(name) or _CARD.fullmatch(str(document)):
            return "…"
        case list():
            return [without_secrets(each, name) for each in document]
        case dict():
            return {key: without_secrets(each, f"{name}.{key}") for key, each in document.items()}
    return document


def with_values(text: str, document: JsonValue) -> str:
    """The text with what was cut of the document's values whole, where only one can be meant.

    For the terminal of who sent the document, and for nothing that others read.
    """
    whole: dict[str, set[str]] = {}
    numbers = _Numbers()
    for found, value in _texts(document):
        numbers.add(value)
        # Reasons quote a whole text, or the bucket or the database of a path.
        for part in (found, *_PARTS.split(found)):
            whole.setdefault(cut(part), set()).add(f"'{_plain(part)}'")
        if len(found) >= _MIN_MASKED:
            whole.setdefault(f"{found[:_BEGINNING]}…", set()).add(found)
    if not whole:
        return text
    # With its quotes first: what was cut there may begin like another value.
    cuts = "|".join(map(re.escape, sorted(whole, key=len, reverse=True)))

    def restored(found: re.Match[str]) -> str:
        if found["one"] is None:
            meant = whole[found[0]]
            return next(iter(meant)) if len(meant) == 1 else found[0]
        alike = numbers.alike.get(found["one"], [])
        first, last = int(found["first"]), int(found["last"] or found["first"])
        is_whole = found["more"] is None or last - first - 1 == int(found["more"])
        if len(alike) != int(found["of"]) or not is_whole or not 1 <= first <= last <= len(alike):
            return found[0]
        return (found["gap"] or "").join(alike[first - 1 : last])

    return re.sub(f"{_NUMBERED}|{cuts}", restored, text, flags=re.DOTALL)


@dataclass
class _Numbers:
    """Which of the values that begin alike one is: both sides count in the document's order."""

    alike: dict[str, list[str]] = field(default_factory=dict)
    _places: dict[str, int] = field(default_factory=dict)

    def add(self, value: str | None) -> None:
        if value is not None and len(value) >= _MIN_MASKED and value not in self._places:
            others = self.alike.setdefault(value[:_BEGINNING], [])
            others.append(value)
            self._places[value] = len(others)

    @property
    def values(self) -> Iterable[str]:
        return self._places

    def of(self, value: str | None) -> tuple[int, int]:
        """Its number, and how many there are; 0 and 0 for one that needs none."""
        place = self._places.get(value or "", 0)
        count = len(self.alike[(value or "")[:_BEGINNING]]) if place else 0
        return (place, count) if count > 1 else (0, 0)


@dataclass(frozen=True)
class _Mask:
    """A value in a text, from `at` to before `end`."""

    at: int
    end: int
    beginning: str
    number: int
    of: int

    def __str__(self) -> str:
        number = f"({self.number} of {self.of})" if self.number else ""
        return f"{self.beginning}…{number}"


def _masked(text: str, masks: Sequence[_Mask]) -> str:
    kept, shown_to, first = [], 0, 0
    while first < len(masks):
        last = _end_of_run(text, masks, first)
        one, other = masks[first], masks[last]
        kept += [text[shown_to : one.at], str(one)]
        if last - first >= _MIN_RUN:
            gap = text[one.end : masks[first + 1].at]
            kept.append(f"{gap}{last - first - 1} more{gap}{other}")
        else:
            other, last = one, first
        shown_to, first = other.end, last + 1
    return "".join([*kept, text[shown_to:]])


def _end_of_run(text: str, masks: Sequence[_Mask], first: int) -> int:
    """The last of the numbered values that follow each other with the same text in between."""
    last, gap = first, ""
    while masks[first].number and last + 1 < len(masks):
        one, other = masks[last], masks[last + 1]
        between = text[one.end : other.at]
        is_next = (one.beginning, one.number + 1) == (other.beginning, other.number)
        if not is_next or not 0 < len(between) <= _MAX_GAP or between != (gap or between):
            break
        last, gap = last + 1, between
    return last


def _only_one(
    part: str, meant: Mapping[str, str | None], begun: Mapping[str, list[str]]
) -> str | None:
    """The value that a text repeats, or begins to; None where it may be one of several."""
    if part in meant:
        return meant[part]
    values = begun[part[:_MAX_BEGINNING]]
    place = bisect_left(values, part)
    found = [each for each in values[place : place + _MAX_SPELLINGS + 1] if each.startswith(part)]
    meanings = {meant[each] for each in found}
    return meanings.pop() if len(meanings) == 1 and len(found) <= _MAX_SPELLINGS else None


def _repeated(text: str, at: int, whole: set[str], begun: dict[str, list[str]]) -> int:
    """How many characters at this place are of a value: 0 if no value is repeated there."""
    values = begun.get(text[at : at + _MAX_BEGINNING])
    if values is None:
        sizes = range(_MAX_BEGINNING, _MIN_MASKED - 1, -1)
        return next((size for size in sizes if text[at : at + size] in whole), 0)

    def is_begun(size: int) -> bool:
        part = text[at : at + size]
        place = bisect_left(values, part)
        return len(part) == size and place < len(values) and values[place].startswith(part)

    # Twice as many each time, then halves: no more is read than twice what is found.
    size = step = _MAX_BEGINNING
    while is_begun(size + step):
        size += step
        step *= 2
    while step := step // 2:
        size += step if is_begun(size + step) else 0
    return size


def _texts(document: JsonValue) -> Iterator[tuple[str, str | None]]:
    """Texts to be cut, in the document's order; each with the value that it stands for, if any."""
    # Not recursive: a document may be nested more deeply than calls may be.
    left = [(document, True)]
    while left:
        match left.pop():
            case str() as text, _:
                yield text, text
                for comments in (True, False):  # in a script's arguments `--` begins none
                    yield from _literals(text, comments=comments)
                yield from ((part, None) for part in secret_parts(text))
                if "\n" in text:
                    lines = (each.strip() for each in text.split("\n"))
                    yield from ((each, None) for each in lines if not _NAMES.fullmatch(each))
            case int() as number, _ if abs(number) < _MAX_NUMBER:
                yield str(abs(number)), str(abs(number))
            case float() as number, _:
                yield repr(abs(number)), repr(abs(number))
                if number.is_integer():
                    yield str(abs(int(number))), None
            case list() as entries, _:
                left += [(each, False) for each in reversed(entries)]
            case dict() as fields, is_outermost:
                # The outermost are names of parameters: a reason names them.
                if not is_outermost:
                    yield from ((name, name) for name in fields)
                left += [(each, False) for each in reversed(fields.values())]


def says_secret(name: str) -> bool:
    """Whether a name says that its value is a secret, such as `api_token`."""
    return _TELLS.search(name) is not None


def secret_parts(text: str) -> Iterator[str]:
    """The parts that look like secrets, also as a program reads them that are in a URL."""
    for pattern in _SECRETS:
        for found in pattern.finditer(text):
            part = found[1]
            yield from (part, unquote(part), unquote_plus(part))
    for found in _CARD.finditer(text):
        yield from (found[0], re.sub("[ -]", "", found[0]))
    for found in _WORD.finditer(text):
        word = found[0]
        has_small, has_capital = _SMALL.search(word), _CAPITAL.search(word)
        is_no_name = "_" not in word or (has_small and has_capital)
        if _DIGIT.search(word) and (has_small or has_capital) and is_no_name:
            yield word


def _literals(text: str, *, comments: bool) -> Iterator[tuple[str, str | None]]:
    """The texts in quotes, as they are written, and as Spark reads them."""
    at, joined, joined_to = 0, "", -1
    while found := _TOKEN.search(text, at):
        at = found.end()
        written = found["one"] or found["two"]
        if written is None:
            if comments and found["dollars"]:
                end = text.find(found[0], at) % (len(text) + 1)  # not closed: to the end
                yield text[at:end], text[at:end]
                at = end + len(found[0])
            elif comments and found[0] in _ENDS:
                at = _after(found[0], text, at)
            continue
        quote = "'" if found["one"] else '"'
        read = _ESCAPE.sub(_unescaped, written.replace(quote * 2, quote))
        # Literals side by side are one. Not each part of a long row: that would be a square.
        is_next = joined_to >= 0 and not text[joined_to : found.start()].strip()
        joined = joined + read if is_next and len(joined) <= _MAX_JOINED else read
        joined_to = at
        yield from ((written, read), (read, read), (joined, None))


def _after(opened: str, text: str, at: int) -> int:
    """Where what is opened ends. A comment in stars may hold others."""
    depth = 1
    for found in _ENDS[opened].finditer(text, at):
        depth += 1 if found[0] == opened == "/*" else -1
        if not depth:
            return found.end()
    return len(text)


def _unescaped(found: re.Match[str]) -> str:
    said = found[0][1:]
    if len(said) > 1:
        code = int(said[1:], 16) if said[0] in "uU" else int(said, 8)
        return chr(code) if code <= sys.maxunicode else said
    return {
        "0": "\0",
        "b": "\b",
        "n": "\n",
        "r": "\r",
        "t": "\t",
        "Z": "\x1a",
        "%": r"\%",
        "_": r"\_",
    }.get(said, said)


def written_forms(text: str, least: int = _MIN_MASKED) -> set[str]:
    """The text, and as others write it, if that has so many characters."""
    if len(text) < least:
        return set()
    content = text.encode("utf-8", "surrogatepass")
    forms = {text, *_in_base64(content)}
    if not _UNRESERVED.fullmatch(text):
        forms |= {html.escape(text), html.escape(text, quote=False), *_in_urls(text, content)}
    if not text.isascii() or not text.isprintable() or _QUOTES.search(text):
        once = {*_escaped(text), _JAVA.sub(_in_capitals, json.dumps(text)[1:-1])}
        # An error's text may be a value of another text.
        forms |= once.union(*map(_escaped, once), (repr(content)[2:-1], _plain(text)))
    return {each for each in forms if len(each) >= least}


def _escaped(text: str) -> set[str]:
    """As Python and JSON write it between quotes."""
    return {
        repr(text)[1:-1],
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
    }


def _in_capitals(escape: re.Match[str]) -> str:
    return rf"\u{escape[1].upper()}"


def _in_urls(text: str, content: bytes) -> Iterator[str]:
    for left, table in _IN_URLS:
        if left.search(text):
            quoted = "".join(map(table.__getitem__, content))
            yield from (quoted, quoted.replace("%20", "+"))


def _in_base64(content: bytes) -> Iterator[str]:
    """As it is within what was encoded, whatever comes before: `user:` before a password."""
    for before in range(3):
        size = before + len(content)
        # Characters that other bytes decide, too, are left out.
        written = b64encode(bytes(before) + content).decode()[(0, 2, 3)[before] : size * 8 // 6]
        yield written
        if "+" in written or "/" in written:
            yield written.replace("+", "-").replace("/", "_")


def _plain(text: str) -> str:
    return text.encode("unicode_escape").decode()
