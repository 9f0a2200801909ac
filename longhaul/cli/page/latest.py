"""The latest value from AWS for each view of the page.

It is fetched on demand when it is no longer fresh, once for all windows that ask at the same time,
and kept when AWS fails.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from longhaul.cli.sentences import AWS_OR_OURS, sentence

T = TypeVar("T")

FRESH: Final = timedelta(seconds=1.5)
"""Below the page's period of two seconds, so that two windows share each fetch."""

_ROOM: Final = 32  # views that are kept


@dataclass(frozen=True)
class Seen(Generic[T]):
    """A `value` as of `at`; `problem` says why it is old, or missing."""

    value: T | None
    at: datetime | None
    problem: str | None = None


@dataclass
class _View:
    """`tried_at`: when the latest fetch ended; None when the next look is to fetch."""

    fetch: Callable[[], Any]
    seen: Seen[Any] = Seen(None, None)
    tried_at: datetime | None = None
    lock: Lock = field(default_factory=Lock)


class Views:
    """The latest values, by view."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = Lock()
        self._views: OrderedDict[Hashable, _View] = OrderedDict()

    def get(self, what: Hashable, fetch: Callable[[], T]) -> Seen[T]:
        """A fresh value; where AWS fails the last one, with the problem.

        `fetch` stays that of the first look, which may keep what cannot change any more.
        """
        with self._lock:
            view = self._views.setdefault(what, _View(fetch))
            self._views.move_to_end(what)
            while len(self._views) > _ROOM:
                self._views.popitem(last=False)
        with view.lock:  # others who ask meanwhile get what this fetch brings
            begun = self._now()
            if view.tried_at is None or begun - view.tried_at >= FRESH:
                try:
                    view.seen = Seen(view.fetch(), begun)
                except AWS_OR_OURS as error:
                    view.seen = replace(view.seen, problem=sentence(error))
                view.tried_at = self._now()
            return view.seen

    def outdate(self) -> None:
        """Fetch again at the next look, even what is fresh."""
        with self._lock:
            for view in self._views.values():
                view.tried_at = None
