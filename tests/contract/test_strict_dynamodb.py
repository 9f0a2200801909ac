"""What only the strict DynamoDB can be asked, or can be made to do.

The rules of DynamoDB stand in `tests/fidelity`.
"""

import pytest
from botocore.exceptions import ParamValidationError

from simulation.aws.cloud import FakeAws
from simulation.aws.dynamodb.client import FakeDynamoDB
from tests.contract.conftest import create_leases_table
from tests.contract.refusals import refused

KEY = {"key": {"S": "main#a"}, "item": {"S": "lease"}}
OTHER = {"key": {"S": "main#b"}, "item": {"S": "lease"}}
ROW = KEY | {
    "n": {"N": "5"},
    "s": {"S": "abc"},
    "flag": {"BOOL": True},
    "open": {"S": "main#RUNNING"},
}


@pytest.fixture
def db(fake: FakeAws) -> FakeDynamoDB:
    create_leases_table(fake.dynamodb)
    fake.dynamodb.put_item(TableName="leases", Item=ROW)
    return fake.dynamodb


def test_item_in_a_transaction_refuses_single_writes(db: FakeDynamoDB) -> None:
    change = {"TableName": "leases", "Key": KEY, "UpdateExpression": "SET x = s"}
    db.make_busy("leases", KEY)
    with refused("TransactionConflictException"):
        db.update_item(**change)
    db.update_item(**change)
    assert db.get_item(TableName="leases", Key=KEY)["Item"]["x"] == {"S": "abc"}


def test_arguments_that_botocore_refuses_are_refused(db: FakeDynamoDB) -> None:
    with pytest.raises(ParamValidationError):
        db.put_item(TableName="leases", Item=KEY | {"n": {"N": 5}})
    with pytest.raises(TypeError):
        db.get_item(TableName="leases", Key=KEY, ReturnConsumedCapacity="TOTAL")


def test_stored_item_does_not_change_with_values_of_the_caller(
    db: FakeDynamoDB,
) -> None:
    item = OTHER | {"x": {"S": "before"}}
    db.put_item(TableName="leases", Item=item)
    item["x"]["S"] = "after"
    db.get_item(TableName="leases", Key=OTHER)["Item"]["x"] = {"S": "after"}
    assert db.get_item(TableName="leases", Key=OTHER)["Item"]["x"] == {"S": "before"}
