"""Virtual time: moves when it is told to, never by itself."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class VirtualClock:
    """`ports.Clock`. Sleeping moves the time on, so whoever sleeps in one thread alone wakes at once."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start

    def now(self) -> datetime:
        """Aware UTC in whole milliseconds, as the real clock gives it."""
        return self._now

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move on, to the next whole millisecond."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds} s")
        self._now += -(timedelta(seconds=-seconds) // _MILLISECOND) * _MILLISECOND

    def advance_to(self, instant: datetime) -> None:
        self.advance((instant - self._now).total_seconds())
