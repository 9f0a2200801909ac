"""Whose turn it is among the tenants of a stage: the one whose last claim is the longest ago. Pure.

A full stage looks at messages and puts them back, and chance decides which one meets a free slot.
So a tenant that waits leaves a mark, and the messages of others leave it a slot. Nothing here is
exact: a mark may be stale, and then a slot stays free for some seconds. A claim is a claim.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256

BUCKETS = 32
"""Tenants are told apart by a hash of their group: two numbers each must fit into a small item."""

FRESH = timedelta(seconds=60)
"""A slot is left free for a tenant whose message waited so long ago, at most."""

RENEWED = timedelta(seconds=10)
"""A mark is written again at the first look after so long."""

LOOKS = timedelta(seconds=15)
"""Of a tenant that waits, another message is looked at within so long after its claim."""

KNOWN = timedelta(days=1)
"""A tenant without a claim for so long, and without a mark, is not there any more."""

_NEVER = datetime.fromtimestamp(0, UTC)
WITHOUT_GROUP = "none"


def tenant_of(group_id: str | None) -> str:
    """A short name for a message group. Messages without one are one tenant together."""
    if group_id is None:
        return WITHOUT_GROUP
    return f"{sha256(group_id.encode()).digest()[0] % BUCKETS:02}"


@dataclass(frozen=True)
class Turns:
    """When each tenant's latest claim was, and when a message of it was last put back."""

    claimed: Mapping[str, datetime] = field(default_factory=dict)
    waited: Mapping[str, datetime] = field(default_factory=dict)

    def has_others(self, tenant: str, now: datetime) -> bool:
        """Whether another tenant was there lately."""
        return any(
            now - at < limit
            for times, limit in ((self.claimed, KNOWN), (self.waited, FRESH))
            for other, at in times.items()
            if other != tenant
        )

    def mark_after_claim(self, tenant: str, now: datetime) -> datetime | None:
        """The mark of a tenant after its claim: fresh until its next look. None if it had none."""
        marked_at = self.waited.get(tenant, _NEVER)
        return now - FRESH + LOOKS if now - marked_at < FRESH else None

    def is_to_mark(self, tenant: str, now: datetime) -> bool:
        """Whether a message that is put back now is to leave its tenant's mark."""
        marked_at = self.waited.get(tenant, _NEVER)
        return now - marked_at >= RENEWED and self.has_others(tenant, now)

    def in_turn(self, tenants: Sequence[str], free: int, slots: int, now: datetime) -> list[int]:
        """The places of the messages that may take the free ones of a stage's slots.

        `tenants` has each message's. Of one tenant's messages the first goes first. When it is the
        turn of tenants that wait elsewhere, half of the slots stay free for them, and no more: a
        mark may be stale. Of many tenants it is the turn of a quarter at once: to wait for the very
        first one would leave slots free for as long as its next message takes to be looked at.
        """
        claimed = dict(self.claimed)
        here: dict[str, list[int]] = {}
        for place, tenant in enumerate(tenants):
            here.setdefault(tenant, []).append(place)
        elsewhere = {
            tenant for tenant, at in self.waited.items() if now - at < FRESH and tenant not in here
        }
        kept = (slots + 1) // 2
        chosen: list[int] = []
        for n in range(free):
            # Of two that never claimed, one in hand.
            waiting = sorted(
                (*here, *sorted(elsewhere)), key=lambda each: claimed.get(each, _NEVER)
            )
            in_turn = waiting if free - n > kept else waiting[: max(1, len(waiting) // 4)]
            first = next((each for each in in_turn if each in here), None)
            if first is None:
                break
            claimed[first] = now + timedelta(milliseconds=n)
            chosen.append(here[first].pop(0))
            if not here[first]:
                del here[first]
        return sorted(chosen)
