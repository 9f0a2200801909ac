"""The state of a job as people see it: that of its row, and three more. Pure."""

from typing import Final, Literal

from longhaul.domain.lease import Lease

JobState = Literal[
    "QUEUED",
    "RUNNING",
    "RELEASED",
    "CANCELLING",
    "SUCCEEDED",
    "DEAD",
    "CANCELLED",
    "UNREADABLE",
]
ENDED: Final[tuple[JobState, ...]] = ("SUCCEEDED", "DEAD", "CANCELLED")

QUEUED: Final = "QUEUED"
"""The state of a job without a row: it waits in its queue, or was never sent."""

UNREADABLE: Final = "UNREADABLE"
"""The state of a job whose row this version cannot read: what it led to is not known."""


def shown_state(lease: Lease) -> JobState:
    """The row's state, or CANCELLING."""
    if lease.cancel_requested_at and not lease.state.is_terminal:
        return "CANCELLING"
    return lease.state.value
