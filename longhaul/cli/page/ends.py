"""The ends of a stage's jobs, from the index, of which a look reads what is new."""

import heapq
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

from longhaul.domain.lease import State
from longhaul.operations.find import LONG_AGO
from longhaul.ports import LeaseIndex

_PAGE: Final = 1_000  # keys in a call

_OVERLAP: Final = timedelta(minutes=5)
"""Looked through again: the index is a little late, and the clocks of settles differ."""

_ALL_AGAIN: Final = timedelta(minutes=5)
"""All ends are read this often, for one that came later still."""


class End(NamedTuple):
    at: datetime
    key: str
    state: State


class Ends:
    """The latest ends within a window: `most` of them, and one more if there are more."""

    def __init__(self, index: LeaseIndex, stage: str, window: timedelta, most: int) -> None:
        self._index, self._stage, self._window, self._most = index, stage, window, most
        self._ends: dict[str, End] = {}
        self._looked_at: datetime | None = None
        self._all_at = LONG_AGO

    def read(self, now: datetime) -> list[End]:
        """The latest end first; also of jobs that owe something, or that run again."""
        begin = now - self._window
        if self._looked_at is None or now - self._all_at >= _ALL_AGAIN:
            self._ends, self._all_at, since = {}, now, begin
        else:
            since = max(begin, self._looked_at - _OVERLAP)
        new = reversed(self._since(since, now))  # the latest wins, where one came twice
        self._ends |= {end.key: end for end in new}
        ends = sorted((end for end in self._ends.values() if end.at >= begin), reverse=True)
        ends = ends[: self._most + 1]
        self._ends, self._looked_at = {end.key: end for end in ends}, now
        return ends

    def forget(self, end: End) -> None:
        """The row does not say so any more: a new run has begun, or it is gone."""
        if self._ends.get(end.key) == end:
            del self._ends[end.key]

    def _since(self, since: datetime, until: datetime) -> list[End]:
        ends = [self._in_state(state, since, until) for state in State if state.is_terminal]
        return list(islice(heapq.merge(*ends, reverse=True), self._most + 1))

    def _in_state(self, state: State, since: datetime, until: datetime) -> Iterator[End]:
        for at, key in self._index.ended_keys(self._stage, state, until, since, _PAGE):
            yield End(at, key, state)
