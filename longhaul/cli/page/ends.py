"""The ends of a stage's jobs, from the index, of which a look reads what is new."""

import heapq
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from longhaul.domain.lease import State
from longhaul.operations.find import LONG_AGO
from longhaul.ports import LeaseIndex

_PAGE: Final = 1_000  # keys in a call

_OVERLAP: Final = timedelta(minutes=5)
"""Looked through again: the index is a little late, and the clocks of settles differ."""

_ALL_AGAIN: Final = timedelta(minutes=5)
"""All ends are read this often, for one that came later still."""


class Ends:
    """The latest ends within a window: `most` of them, and one more if there are more."""

    def __init__(self, index: LeaseIndex, stage: str, window: timedelta, most: int) -> None:
        self._index, self._stage, self._window, self._most = index, stage, window, most
        self._ends: dict[str, datetime] = {}
        self._looked_at = self._all_at = LONG_AGO

    def read(self, now: datetime) -> Mapping[str, datetime]:
        """The time by the key of each; also of jobs that owe something, or that run again."""
        begin = now - self._window
        if now - self._all_at >= _ALL_AGAIN:
            self._ends, self._all_at, since = {}, now, begin
        else:
            since = max(begin, self._looked_at - _OVERLAP)
        found = heapq.merge(
            *(
                self._index.ended_keys(self._stage, state, now, since, _PAGE)
                for state in State
                if state.is_terminal
            ),
            reverse=True,
        )
        new = reversed([*islice(found, self._most + 1)])  # the latest wins, where one came twice
        self._ends |= {key: at for at, key in new}
        latest = sorted(self._ends.items(), key=lambda end: end[1], reverse=True)
        self._ends = {key: at for key, at in latest[: self._most + 1] if at >= begin}
        self._looked_at = now
        return self._ends

    def forget(self, key: str) -> None:
        """The row does not say so any more: a new run has begun, or it is gone."""
        self._ends.pop(key, None)
