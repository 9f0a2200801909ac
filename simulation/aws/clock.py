"""Virtual time: it moves only when it is advanced."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class VirtualClock:
    """`ports.Clock`; a sleep advances it.

    Attributes:
        ms: Whole milliseconds since the start.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._now: datetime | None = start  # None: not asked for since the time moved
        self.ms = 0

    def now(self) -> datetime:
        """Aware UTC in whole milliseconds, like the real clock."""
        now = self._now
        if now is None:
            seconds, ms = divmod(self.ms, 1_000)
            now = self._now = self._start + timedelta(0, seconds, 1_000 * ms)
        return now

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Advance to the next whole millisecond."""
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
            self._now = None

    def ms_of(self, instant: datetime) -> int:
        """Milliseconds from the start to that instant, rounded up."""
        return -((self._start - instant) // _MILLISECOND)


def milliseconds(seconds: float) -> int:
    """Seconds as whole milliseconds, rounded up.

    Rounded to microseconds first, so that a float's error adds no millisecond.
    """
    return -(-round(seconds * 1_000_000) // 1_000)
