"""Messages and rows on which our own code fails again and again. Pure.

Such a job must not circle unseen: it becomes a dead letter of the class `internal_error`.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from longhaul.domain.lease import Lease, Owed, State

INTERNAL_ERROR: Final = "internal_error"

MAX_ERRORS: Final = 10
"""Errors in a row at one place of a job's life before it is given up.

The message comes every two minutes, the sweeper every five. So a bad deploy that is rolled back
within a quarter of an hour costs no job, and a poisoned one is seen within the hour.
"""

IN_A_ROW: Final = timedelta(hours=1)
"""An error this long after the one before begins a new row: in between it went well."""


def given_up(lease: Lease, error: Exception, now: datetime) -> Lease:
    """The row of a job on which our code keeps failing: dead, whatever it was.

    The error's name, not its text: that may quote data. The log has it.
    """
    what = {
        State.RUNNING: "its attempt could not be settled",
        State.RELEASED: "its next attempt could not be started",
    }.get(lease.state, f"after it had ended, this failed: {', '.join(lease.owed)}")
    return replace(
        lease,
        state=State.DEAD,
        owed=(Owed.DEAD_LETTER, Owed.DELETE),
        settled_attempt=max(lease.settled_attempt, lease.attempt.number),
        settled_at=now,
        last_class=INTERNAL_ERROR,
        last_error=explained(error, what),
    )


def explained(error: Exception, what: str) -> str:
    """Why a job was given up, in a sentence for people."""
    return (
        f"{type(error).__name__}, {MAX_ERRORS} times in a row: {what}; "
        "the functions' logs have the error"
    )
