"""Jobs of a stage that a deploy took out of the settings while they were there. Pure.

The stage's queues are gone with all messages. What runs is settled as far as a row goes; what waits
for another attempt is over, because no message of it comes.
"""

from dataclasses import replace
from datetime import datetime

from longhaul.domain.lease import Lease, State
from longhaul.domain.verdict import OutcomeClass, Verdict

STAGE_REMOVED = "stage_removed"

_WHY = "its stage was removed with its queue, so it is not tried again"


def without_retry(verdict: Verdict) -> Verdict:
    """The verdict on an attempt of a removed stage: a failure is the last one."""
    if verdict.kind in (OutcomeClass.SUCCEEDED, OutcomeClass.CANCELLED):
        return verdict
    detail = f"{verdict.kind.value}: {verdict.detail}; {_WHY}"
    return Verdict(OutcomeClass.PERMANENT, detail, stop_task=verdict.stop_task)


def ended(lease: Lease, now: datetime) -> Lease:
    """The row of a released job of a removed stage: dead. There is no queue for a dead letter."""
    return replace(
        lease,
        state=State.DEAD,
        owed=(),
        settled_at=now,
        last_class=STAGE_REMOVED,
        last_error=f"{lease.last_error or 'it waited for its next attempt'}; {_WHY}",
    )
