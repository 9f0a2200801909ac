"""Claims and settles from many threads on Amazon's DynamoDB Local."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

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
from tests.oracles.engines import Account, Oracles
from tests.oracles.servers import addresses

pytestmark = pytest.mark.slow
STAGE = stage(slots=5)
CLAIMS = 24


@pytest.fixture
def leases(account: Account) -> DynamoLeases:
    # Threads may share a client; each claim of a thread is a connection of its own.
    config = Config(max_pool_connections=CLAIMS)
    client = account.client("dynamodb", config=config)
    return DynamoLeases(Records(client, "leases", SystemClock(), random.Random(1)))


@pytest.fixture
def account(oracles: Oracles) -> Iterator[Account]:
    with oracles.account() as made:
        made.client("dynamodb").create_table(**creation("leases"))
        yield made


def test_claims_at_once_take_as_many_slots_as_there_are_and_settles_free_them(
    account: Account, leases: DynamoLeases
) -> None:
    slots = DynamoSlots(
        Records(account.client("dynamodb"), "leases", SystemClock(), random.Random(1))
    )

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


def test_claims_of_one_job_at_once_have_one_winner(account: Account, leases: DynamoLeases) -> None:
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
    slots = DynamoSlots(
        Records(account.client("dynamodb"), "leases", SystemClock(), random.Random(1))
    )
    assert slots.room(STAGE, NOW).free == STAGE.slots - 1


def test_servers_listen_on_this_machine_alone(account: Account) -> None:
    account.client("sqs")
    assert addresses() <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def test_servers_end_with_the_tests(tmp_path: Path) -> None:
    with closing(Oracles(tmp_path)) as short:
        account = Account(short)
        account.client("dynamodb")
        account.client("sqs")
        before = addresses(ports=True)
    assert len(before - addresses(ports=True)) >= 2
