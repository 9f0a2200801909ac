"""What becomes of a row that has no attempt any more. Pure."""

import random
from dataclasses import replace
from datetime import datetime, timedelta

from longhaul.domain import backoff
from longhaul.domain.lease import Lease, Owed, State
from longhaul.domain.verdict import OutcomeClass
from longhaul.settings import LeaseSettings


def dead(row: Lease) -> Lease:
    return replace(row, state=State.DEAD, owed=(Owed.DEAD_LETTER, Owed.DELETE))


def cancel_waiting(lease: Lease, now: datetime) -> Lease:
    """The row of a job that was cancelled between attempts."""
    return replace(
        lease,
        state=State.CANCELLED,
        owed=(Owed.DELETE,),
        last_class=OutcomeClass.CANCELLED.value,
        settled_at=now,
    )


def struck(lease: Lease, done: Owed, now: datetime) -> Lease:
    """The row without what is done; when that was the publish, with its time."""
    lease = replace(lease, owed=tuple(owed for owed in lease.owed if owed is not done))
    if done is Owed.PUBLISH:
        return replace(lease, attempt=replace(lease.attempt, published_at=now))
    return lease


def noted_gone(lease: Lease, now: datetime) -> Lease:
    """The row of a job whose committed uploads are neither pending nor completed."""
    return replace(lease, attempt=replace(lease.attempt, gone_at=now))


def reopened(lease: Lease, timing: LeaseSettings, now: datetime, rng: random.Random) -> Lease:
    """The row of a job whose committed output is void: it runs again, as after an interruption.

    It may be void each time, where others change the same table or move new objects away. A cancel
    that came after the commit holds now.
    """
    interruptions = lease.interruptions + 1
    row = replace(
        lease,
        attempt=replace(lease.attempt, output=None, result=None, gone_at=None),
        interruptions=interruptions,
        unplaced_since=None,  # the attempt had a place: a wait before it is over
        last_class=OutcomeClass.INTERRUPTED.value,
        last_error="the committed output was void",
        cancel_requested_at=lease.cancelled_at if lease.is_cancelled else None,
    )
    if interruptions >= timing.max_interruptions:
        # Its end is now, and not when it seemed to have succeeded: what was sent in between is
        # older than its death.
        return dead(replace(row, settled_at=now))
    wait = timedelta(seconds=backoff.back_off_s(interruptions - 1, timing, rng))
    return replace(row, state=State.RELEASED, owed=(), retry_at=now + wait)
