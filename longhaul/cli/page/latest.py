"""The latest value from AWS for each view of the page.

It is fetched on demand when it is no longer fresh, once for all windows that ask at the same time,
and kept when AWS is slow or fails.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from longhaul.cli.sentences import AWS_OR_OURS, sentence

T = TypeVar("T")
Spawn = Callable[[Callable[[], None]], None]

FRESH_S = 1.5
"""Below the page's period of two seconds, so that two windows share each fetch."""

PATIENCE_S = 4.0
"""After this wait the page shows what it has and says that AWS is slow."""

_ROOM = 32  # views that are kept


@dataclass(frozen=True)
class Seen(Generic[T]):
    """A `value` as of `at`; `problem` says why it is old, or missing."""

    value: T | None
    at: datetime | None
    problem: str | None


class Latest(Generic[T]):
    def __init__(
        self, fetch: Callable[[], T], now: Callable[[], datetime], spawn: Spawn, patience_s: float
    ) -> None:
        self._fetch, self._now, self._spawn, self._patience_s = fetch, now, spawn, patience_s
        self._lock = Lock()
        self._asked: Future[T] | None = None
        self._begun: datetime | None = None
        self._outdated = False
        self._value: T | None = None
        self._at: datetime | None = None

    def get(self) -> Seen[T]:
        """A fresh value; after `patience_s` the last one, with the problem."""
        asked = self._ask()
        wait([asked], timeout=self._patience_s)
        if not asked.done():
            return Seen(self._value, self._at, "AWS has not answered yet")
        try:
            asked.result()
        except AWS_OR_OURS as error:
            return Seen(self._value, self._at, sentence(error))
        return Seen(self._value, self._at, None)

    def outdate(self) -> None:
        """Fetch again at the next look, even if the value is fresh."""
        self._outdated = True

    def _ask(self) -> Future[T]:
        with self._lock:
            if self._asked is not None and (not self._asked.done() or self._is_fresh()):
                return self._asked
            self._asked, self._begun, self._outdated = Future(), self._now(), False
            asked, begun = self._asked, self._begun
        self._spawn(lambda: self._fetch_for(asked, begun))
        return asked

    def _is_fresh(self) -> bool:
        return (
            not self._outdated
            and self._begun is not None
            and (self._now() - self._begun).total_seconds() < FRESH_S
        )

    def _fetch_for(self, asked: Future[T], begun: datetime) -> None:
        try:
            value = self._fetch()
        except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
            asked.set_exception(error)
        else:
            self._value, self._at = value, begun
            asked.set_result(value)


class Views:
    """The latest values, by view."""

    def __init__(
        self,
        now: Callable[[], datetime],
        spawn: Spawn | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._now, self._spawn, self._patience_s = now, spawn or in_thread, patience_s
        self._lock = Lock()
        self._views: OrderedDict[Hashable, Latest[Any]] = OrderedDict()

    def get(self, what: Hashable, fetch: Callable[[], T]) -> Seen[T]:
        with self._lock:
            view: Latest[T] = self._views.setdefault(
                what, Latest(fetch, self._now, self._spawn, self._patience_s)
            )
            self._views.move_to_end(what)
            while len(self._views) > _ROOM:
                self._views.popitem(last=False)
        return view.get()

    def outdate(self) -> None:
        with self._lock:
            for view in self._views.values():
                view.outdate()


def in_thread(work: Callable[[], None]) -> None:
    """In a daemon thread: Ctrl-C does not wait for AWS."""
    Thread(target=work, name="asking-aws", daemon=True).start()
