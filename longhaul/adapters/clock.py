"""The real clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    def now(self) -> datetime:
        """Aware UTC in whole milliseconds, as the rows store it."""
        now = datetime.now(UTC)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
