"""When an invocation stops: a function that Lambda ends repeats what it did.

What is left then is still in the queue, or owed in its row, and another invocation goes on with it.
"""

from datetime import datetime, timedelta

from longhaul.ports import Clock

_MARGIN = timedelta(seconds=10)
"""For the answer, and for what is short and comes after the long work."""


def deadline(remaining_ms: int, clock: Clock) -> datetime:
    """The time by which an invocation with `remaining_ms` left stops its long work."""
    return clock.now() + timedelta(milliseconds=remaining_ms) - _MARGIN


def left_s(until: datetime | None, clock: Clock) -> float | None:
    """Seconds until then; None where nothing ends the work."""
    return None if until is None else (until - clock.now()).total_seconds()
