"""Randomness by place, not by order, so that leaving out one fault moves none of the others."""

import random
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

_WHOLE = float(2**64)


def rng_of(seed: int, name: str) -> random.Random:
    """The random source of one place."""
    return random.Random(_number(f"{seed}/{name}"))


def unit(seed: int, name: str) -> float:
    """One number in [0, 1) for one decision."""
    return _number(f"{seed}/{name}") / _WHOLE


def chosen(seed: int, name: str, choices: Sequence[T]) -> T:
    """One of the choices."""
    return choices[int(unit(seed, name) * len(choices))]


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
