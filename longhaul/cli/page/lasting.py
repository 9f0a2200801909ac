"""The page over restarts of what it shows: a stack that was deployed anew has other parts."""

from collections.abc import Callable, Iterable
from threading import Lock
from time import monotonic
from typing import Any, Final

from longhaul.cli.page.app import Page
from longhaul.cli.page.latest import Spawn, in_thread
from longhaul.cli.sentences import AWS_OR_OURS

PERIOD_S: Final = 10.0
"""Between two looks. Each asks CloudFormation and Lambda."""


class LastingPage:
    """The page as a WSGI application; another one takes its place when its stack is elsewhere."""

    def __init__(
        self, page: Page, spawn: Spawn = in_thread, clock: Callable[[], float] = monotonic
    ) -> None:
        self._page, self._spawn, self._clock = page, spawn, clock
        self._lock = Lock()
        self._looked_at: float | None = None

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:  # noqa: ANN401 - WSGI
        page = self._page
        if page.is_lost and self._is_due():
            self._spawn(lambda: self._look_again(page))
        return self._page(environ, start_response)

    def _is_due(self) -> bool:
        with self._lock:
            now = self._clock()
            if self._looked_at is not None and now - self._looked_at < PERIOD_S:
                return False
            self._looked_at = now
            return True

    def _look_again(self, page: Page) -> None:
        try:
            self._page = page.again()
        except AWS_OR_OURS:
            # It is not there yet. The page goes on saying what is wrong.
            return
