"""What an attempt of a world returns and measures, and what of it can be kept.

By its token alone: another draw from a world's dice would change all that follows.
"""

from math import nan
from typing import Any, Final
from zlib import crc32

MARK: Final = "mark"
"""The metric whose value tells the attempt."""


def returned(token: str) -> Any:
    """One in three is too large, one in three no JSON."""
    match _kind(token):
        case "too large":
            return [token] * 4096
        case "no JSON":
            return {token}
    return token


def measured(token: str) -> dict[str, float]:
    """The last is no number, which no job may be failed for."""
    return {MARK: mark(token), "broken": nan}


def mark(token: str) -> int:
    return crc32(token.encode())


def kept(token: str) -> tuple[Any, dict[str, float]]:
    """The result, None where it cannot be kept, and the metrics."""
    return token if _kind(token) == "plain" else None, {MARK: mark(token)}


def _kind(token: str) -> str:
    return ("plain", "too large", "no JSON")[mark(token) % 3]
