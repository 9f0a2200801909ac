"""Tenants' turns in the slots item, on the strict fake and on moto."""

from datetime import timedelta

from longhaul.adapters.dynamodb.leases import DynamoLeases
from longhaul.adapters.dynamodb.slots import DynamoSlots
from longhaul.domain import transitions
from longhaul.domain.claim import Claim
from longhaul.domain.pace import Pace
from tests.builders import NOW, running
from tests.contract.leases import STAGE


def test_a_claim_notes_its_tenant_and_keeps_its_mark(
    leases: DynamoLeases, slots: DynamoSlots
) -> None:
    later = NOW + timedelta(seconds=5)
    slots.mark_waiting(STAGE, ["03", "07"], NOW)
    claim = Claim(running(), replaces=None)
    leases.apply(
        transitions.claim(
            claim, STAGE, Pace(later, 1.0, tenant="07", waited_at=NOW - timedelta(seconds=1))
        )
    )

    turns = slots.room(STAGE, later).turns

    assert turns.claimed == {"07": later}
    assert turns.waited == {"03": NOW, "07": NOW - timedelta(seconds=1)}


def test_a_claim_without_a_tenant_notes_none(leases: DynamoLeases, slots: DynamoSlots) -> None:
    leases.apply(transitions.claim(Claim(running(), replaces=None), STAGE, Pace(NOW, 1.0)))

    room = slots.room(STAGE, NOW)

    assert (room.turns.claimed, room.turns.waited) == ({}, {})
    assert room.running == 1
