"""The adapters' contracts, against the strict fakes and against moto: the same tests for both."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto import mock_aws

from longhaul.adapters.clock import SystemClock
from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.domain.claim import Claim
from longhaul.domain.lease import Lease
from longhaul.ports import Clock
from tests.builders import running
from tests.contract.leases import STAGE
from tests.fakes.aws import FakeAws
from tests.fakes.shapes import checked


@dataclass(frozen=True)
class Aws:
    """One of the two. `fake` is None for moto."""

    client: Callable[..., Any]
    clock: Clock
    fake: FakeAws | None = None


@pytest.fixture(params=["strict", "moto"])
def aws(request: pytest.FixtureRequest) -> Iterator[Aws]:
    if request.param == "strict":
        fake = FakeAws(around=checked)
        yield Aws(fake.client, fake.clock, fake)
        return
    with mock_aws():
        yield Aws(boto3.client, SystemClock())


@pytest.fixture
def fake() -> FakeAws:
    """The strict fakes alone, for what only they refuse."""
    return FakeAws(around=checked)


def create_leases_table(dynamodb: Any) -> str:
    dynamodb.create_table(
        TableName="leases",
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            *({"AttributeName": name, "AttributeType": "S"} for name in ("key", "item", "open", "root", "ended")),
            {"AttributeName": "settled_at", "AttributeType": "N"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": name,
                "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
            for name in ("open", "root")
        ]
        + [
            {
                "IndexName": "ended",
                "KeySchema": [
                    {"AttributeName": "ended", "KeyType": "HASH"},
                    {"AttributeName": "settled_at", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return "leases"


@pytest.fixture
def table(aws: Aws) -> str:
    return create_leases_table(aws.client("dynamodb"))


@pytest.fixture
def leases(aws: Aws, table: str) -> DynamoLeases:
    return DynamoLeases(aws.client("dynamodb"), table, aws.clock, random.Random(1))


@pytest.fixture
def claimed(leases: DynamoLeases) -> Lease:
    """The row of a job that runs."""
    leases.claim(Claim(running(), replaces=None), STAGE)
    return running()
