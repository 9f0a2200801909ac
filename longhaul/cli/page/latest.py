"""The latest value from AWS for each view of the page.

It is fetched on demand when it is no longer fresh, once for all windows that ask at the same time,
and kept when AWS is slow or fails.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock, Thread
from typing import Any, Final, Generic, TypeVar

from longhaul.cli.sentences import AWS_OR_OURS, sentence

T = TypeVar("T")
Spawn = Callable[[Callable[[], None]], None]

FRESH: Final = timedelta(seconds=1.5)
"""Below the page's period of two seconds, so that two windows share each fetch."""

PATIENCE_S = 4.0
"""After this wait the page shows what it has and says that AWS is slow."""

_ROOM = 32  # views that are kept


@dataclass(frozen=True)
class Seen(Generic[T]):
    """A `value` as of `at`; `problem` says why it is old, or missing."""

    value: T | None
    at: datetime | None
    problem: str | None = None


@dataclass
class _View(Generic[T]):
    """`begun`: when it was fetched last; None when the next look is to fetch."""

    fetch: Callable[[], T]
    seen: Seen[T] = Seen(None, None)
    asked: Future[None] | None = None
    begun: datetime | None = None

    def fetch_for(self, asked: Future[None], begun: datetime) -> None:
        try:
            self.seen = Seen(self.fetch(), begun)
        except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
            asked.set_exception(error)
        else:
            asked.set_result(None)


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
        self._views: OrderedDict[Hashable, _View[Any]] = OrderedDict()

    def get(self, what: Hashable, fetch: Callable[[], T]) -> Seen[T]:
        """A fresh value; after `patience_s` the last one, with the problem."""
        with self._lock:
            view: _View[T] = self._views.setdefault(what, _View(fetch))
            self._views.move_to_end(what)
            while len(self._views) > _ROOM:
                self._views.popitem(last=False)
            now, asked = self._now(), view.asked
            is_fresh = view.begun is not None and now - view.begun < FRESH
            is_due = asked is None or (asked.done() and not is_fresh)
            if asked is None or is_due:
                asked, view.begun = Future(), now
                view.asked = asked
        if is_due:
            self._spawn(lambda: view.fetch_for(asked, now))
        wait([asked], timeout=self._patience_s)
        if not asked.done():
            return Seen(view.seen.value, view.seen.at, "AWS has not answered yet")
        try:
            asked.result()
        except AWS_OR_OURS as error:
            return Seen(view.seen.value, view.seen.at, sentence(error))
        return view.seen

    def outdate(self) -> None:
        """Fetch again at the next look, even what is fresh."""
        with self._lock:
            for view in self._views.values():
                view.begun = None


def in_thread(work: Callable[[], None]) -> None:
    """In a daemon thread: Ctrl-C does not wait for AWS."""
    Thread(target=work, name="asking-aws", daemon=True).start()
