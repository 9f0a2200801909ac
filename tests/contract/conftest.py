"""Clients for the contract tests: each test runs on the strict fakes and on moto."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from longhaul.core import transitions
from longhaul.core.clients import SystemClock
from longhaul.core.lease import Lease
from longhaul.core.ports import Clock
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import after_verdict
from longhaul.core.store.item import lease_key
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.core.store.slots import DynamoSlots
from longhaul.core.verdict import OutcomeClass, Verdict
from simulation.aws.cloud import FakeAws
from simulation.aws.leases_table import creation
from simulation.aws.shapes import checked
from tests.builders import NOW, changed, running, stage

NUMBERS = LeaseSettings()
STAGE = stage(slots=2)


def other(lease: Lease, n: int) -> Lease:
    return changed(lease, key=f"main#job-{n}", message_id=f"m-job-{n}")


def after(lease: Lease, kind: OutcomeClass) -> Lease:
    return after_verdict(lease, Verdict(kind, "why"), STAGE, NUMBERS, NOW, random.Random(1)).lease


@dataclass(frozen=True)
class Aws:
    """The strict fakes, moto, or DynamoDB Local. `fake` is None for the others."""

    client: Callable[..., Any]
    clock: Clock
    fake: FakeAws | None = None


@pytest.fixture(params=["strict", "moto", pytest.param("oracle", marks=pytest.mark.slow)])
def aws(request: pytest.FixtureRequest) -> Iterator[Aws]:
    if request.param == "strict":
        fake = FakeAws(around=checked)
        yield Aws(fake.client, fake.clock, fake)
    elif request.param == "moto":
        # `make check` asks the fakes alone.
        from tests.contract.moto_account import moto_account  # noqa: PLC0415

        with moto_account() as client:
            yield Aws(client, SystemClock())
    else:
        from tests.oracles.dynamodb_local import account_at  # noqa: PLC0415 - as above

        yield Aws(account_at(request.getfixturevalue("oracle")), SystemClock())


@pytest.fixture
def fake() -> FakeAws:
    """The strict fakes alone, for tests that moto is too lenient for."""
    return FakeAws(around=checked)


def create_leases_table(dynamodb: Any) -> str:
    dynamodb.create_table(**creation("leases"))
    return "leases"


@pytest.fixture
def table(aws: Aws) -> str:
    return create_leases_table(aws.client("dynamodb"))


def ttl_of(aws: Aws, key: str) -> int | None:
    """When DynamoDB deletes a row, in seconds since the epoch; None: never, or there is none."""
    table = aws.client("dynamodb")
    found = table.get_item(TableName="leases", Key=lease_key(key), ConsistentRead=True).get(
        "Item", {}
    )
    return int(found["ttl"]["N"]) if "ttl" in found else None


@pytest.fixture
def leases(aws: Aws, table: str) -> DynamoLeases:
    return DynamoLeases(Records(aws.client("dynamodb"), table, aws.clock, random.Random(1)))


@pytest.fixture
def slots(aws: Aws, table: str) -> DynamoSlots:
    return DynamoSlots(Records(aws.client("dynamodb"), table, aws.clock, random.Random(1)))


@pytest.fixture
def claimed(leases: DynamoLeases) -> Lease:
    """The row of a running job."""
    leases.apply(transitions.claim(None, running(), STAGE))
    return running()
