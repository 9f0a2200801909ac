"""Writes that meet a transaction on the same item try again: it is over in milliseconds."""

import random
from collections.abc import Callable, Iterator
from typing import TypeVar

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of, retrying
from longhaul.ports import Clock

T = TypeVar("T")

TRIES = 8


class Conflicts:
    """Tries again with full jitter."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng

    def tries(self) -> Iterator[bool]:
        """One round for each try; yields whether it is the last one."""
        return retrying(
            TRIES, self._clock.sleep, lambda n: self._rng.uniform(0, 0.05 * 2 ** (n - 1))
        )

    def outlast(self, write: Callable[[], T]) -> T:
        """What the write of a single item returns; its other errors are raised as they are."""
        for is_last in self.tries():
            try:
                return write()
            except ClientError as error:
                if code_of(error) != "TransactionConflictException" or is_last:
                    raise
        raise AssertionError("the last try returns or raises")
