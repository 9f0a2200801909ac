"""Claims and settles from many threads on Amazon's DynamoDB Local."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.config import Config

from longhaul.core import transitions
from longhaul.core.clients import SystemClock
from longhaul.core.errors import LeaseChangedError, NoFreeSlotError
from longhaul.core.lease import Lease, State
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.core.store.slots import DynamoSlots
from longhaul.core.verdict import OutcomeClass
from simulation.aws.leases_table import creation
from tests.builders import NOW, changed, running, stage
from tests.contract.conftest import after, other
from tests.oracles.dynamodb_local import account_at

pytestmark = pytest.mark.slow
STAGE = stage(slots=5)
CLAIMS = 24


@pytest.fixture
def records(oracle: str) -> Records:
    # Threads may share a client; each claim of a thread is a connection of its own.
    config = Config(max_pool_connections=CLAIMS)
    client: Any = account_at(oracle)("dynamodb", config=config)
    client.create_table(**creation("leases"))
    return Records(client, "leases", SystemClock(), random.Random(1))


@pytest.fixture
def leases(records: Records) -> DynamoLeases:
    return DynamoLeases(records)


def test_claims_at_once_take_as_many_slots_as_there_are_and_settles_free_them(
    records: Records, leases: DynamoLeases
) -> None:
    slots = DynamoSlots(records)

    def claim(n: int) -> Lease | None:
        wanted = other(running(), n)
        try:
            leases.apply(transitions.claim(None, wanted, STAGE))
        except NoFreeSlotError:
            return None
        return wanted

    with ThreadPoolExecutor(CLAIMS) as pool:
        claimed = [lease for lease in pool.map(claim, range(CLAIMS)) if lease]
    assert len(claimed) == STAGE.slots
    assert slots.room(STAGE, NOW).free == 0

    def settle(lease: Lease) -> bool:
        try:
            leases.apply(transitions.settle(lease, after(lease, OutcomeClass.FAILED)))
        except LeaseChangedError:
            return False
        return True

    twice = claimed * 2
    with ThreadPoolExecutor(len(twice)) as pool:
        settled = list(pool.map(settle, twice))
    assert settled.count(True) == len(claimed)
    assert slots.room(STAGE, NOW).free == STAGE.slots
    rows = leases.load_many([lease.key for lease in claimed])
    assert {row.state for row in rows.values()} == {State.RELEASED}


def test_claims_of_one_job_at_once_have_one_winner(records: Records, leases: DynamoLeases) -> None:
    def claim(n: int) -> bool:
        rival = changed(running(), message_id=f"m-{n}")
        try:
            leases.apply(transitions.claim(None, rival, STAGE))
        except LeaseChangedError:
            return False
        return True

    with ThreadPoolExecutor(CLAIMS) as pool:
        won = list(pool.map(claim, range(CLAIMS)))
    assert won.count(True) == 1
    slots = DynamoSlots(records)
    assert slots.room(STAGE, NOW).free == STAGE.slots - 1
