"""Virtual time: moves when it is told to, never by itself."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class VirtualClock:
    """`ports.Clock`. Sleeping moves the time on, so whoever sleeps in one thread alone wakes at once.

    Attributes:
        ms: Whole milliseconds since the start, in which it counts.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = self._now = start
        self.ms = 0

    def now(self) -> datetime:
        """Aware UTC in whole milliseconds, as the real clock gives it."""
        return self._now

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move on, to the next whole millisecond."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds} s")
        self.advance_to_ms(self.ms + milliseconds(seconds))

    def advance_to(self, instant: datetime) -> None:
        self.advance_to_ms(self.ms_of(instant))

    def advance_to_ms(self, ms: int) -> None:
        if ms < self.ms:
            raise ValueError(f"time does not run backwards: {self.ms - ms} ms")
        if ms > self.ms:
            self.ms = ms
            self._now = self._start + timedelta(milliseconds=ms)

    def ms_of(self, instant: datetime) -> int:
        """That instant in its milliseconds, the next whole one."""
        return -((self._start - instant) // _MILLISECOND)


def milliseconds(seconds: float) -> int:
    """The next whole number of them. What is exact in microseconds, as times are, is not rounded up for a float's sake."""
    return -(-round(seconds * 1_000_000) // 1_000)
