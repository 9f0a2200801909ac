"""How much memory a text of JSON takes while it is read. Pure.

Functions have 1 GB, and read what tasks write. A parser makes a tree of a text before any model
looks at it: "{}," takes three bytes, and hundreds in the tree.
"""

from typing import Final

MAX_BYTES: Final = 128 * 2**20
"""Longer than any manifest or list of ours: 100,000 files, each with the longest key of S3."""

MAX_FOOTPRINT: Final = 600 * 2**20
"""What fits into a function beside its code and the text."""

# Measured with pydantic's parser, which takes more than Python's. Of a list of 100,000 files with
# their uploads it is an estimate of 370 MiB, and the models take no more after it.
_PER_OBJECT: Final = 900
_PER_LIST: Final = 400
_PER_VALUE: Final = 60


def footprint(text: bytes) -> int:
    """Bytes that its tree takes, at most: what stands within strings counts, too."""
    return (
        len(text)
        + _PER_OBJECT * text.count(b"{")
        + _PER_LIST * text.count(b"[")
        + _PER_VALUE * text.count(b",")
    )


def is_readable(text: bytes) -> bool:
    """Whether a function can read a text of JSON: it was checked for `MAX_BYTES` before."""
    return footprint(text) <= MAX_FOOTPRINT
