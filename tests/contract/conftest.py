"""The adapters' contracts, against moto in this process."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws


@pytest.fixture
def aws() -> Iterator[None]:
    with mock_aws():
        yield


@pytest.fixture
def table(aws: None) -> str:  # noqa: ARG001 - runs inside it
    boto3.client("dynamodb").create_table(
        TableName="leases",
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("key", "item", "open")],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "open",
                "KeySchema": [{"AttributeName": "open", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return "leases"
