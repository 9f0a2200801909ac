"""How much memory a text of JSON takes while it is read. Pure.

Functions have 1 GB, and read what tasks write. A parser makes a tree of a text before any model
looks at it: "{}," takes three bytes, and hundreds in the tree.
"""

import re
from typing import Final

MAX_BYTES: Final = 128 * 2**20
"""Longer than any manifest or list of ours: 100,000 files, each with the longest key of S3."""

MAX_DECODED_BYTES: Final = MAX_BYTES // 2
"""The same for Python's own parser, which also makes a text of the whole. No job emits more."""

MAX_FOOTPRINT: Final = 600 * 2**20
"""What fits into a function beside its code and the text."""

# Measured with pydantic's parser, which takes more than Python's. Of a list of 100,000 files with
# their uploads it is an estimate of 510 MiB, and the models take no more after it.
_PER_OBJECT: Final = 900
_PER_LIST: Final = 400
_PER_VALUE: Final = 60
# Python gives each character of a text as many bytes as its widest one takes: one wide character
# makes a text four times as long. First bytes of UTF-8, and how JSON escapes the same.
_WIDE: Final = (
    (4, re.compile(rb"[\xf0-\xff]|\\u[dD][89abAB]")),
    (2, re.compile(rb"[\xc4-\xef]|\\u")),
)


def footprint(text: bytes) -> int:
    """Bytes that it takes while models read it, at most: what stands within strings counts, too.

    That is the text itself, the parser's tree of it, and the models' own texts.
    """
    # Two looks that take a hundredth of the time of the patterns, and suffice for most texts.
    is_narrow = text.isascii() and b"\\u" not in text
    width = 1 if is_narrow else next((width for width, wide in _WIDE if wide.search(text)), 1)
    return (
        (2 + width) * len(text)
        + _PER_OBJECT * text.count(b"{")
        + _PER_LIST * text.count(b"[")
        + _PER_VALUE * text.count(b",")
    )


def is_readable(text: bytes) -> bool:
    """Whether a function can read a text of JSON: it was checked for `MAX_BYTES` before."""
    return footprint(text) <= MAX_FOOTPRINT
