"""A retry that does not wait for its message. Pure.

The message of a released job comes again among all others that wait, and SQS gives out none of them
first. So where jobs wait for slots, a dispatcher claims the next attempt of a job from its row,
without a message in hand.
"""

from datetime import datetime, timedelta

from longhaul.domain.claim import Claim, next_attempt
from longhaul.domain.lease import Lease, State
from longhaul.settings import LeaseSettings

_MESSAGE_FIRST = timedelta(seconds=150)
"""After the back-off. In a queue without a backlog the message itself comes within seconds.

Also longer than the clocks of two functions differ: `retry_at` was written by another's, and the
stopped task of the last attempt may run until then.
"""


def decide_retry(lease: Lease, timing: LeaseSettings, now: datetime) -> Claim | None:
    """The claim of a released job's next attempt, if it is time and nothing speaks against it."""
    if lease.state is not State.RELEASED or lease.is_mark or lease.is_cancelled:
        return None
    if lease.retry_at is None or now < lease.retry_at + _MESSAGE_FIRST:
        return None
    return Claim(next_attempt(lease, None, timing, now), replaces=lease)
