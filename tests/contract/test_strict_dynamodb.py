"""What only the strict DynamoDB can be asked, or can be made to do.

The rules of DynamoDB stand in `tests/fidelity`.
"""

import pytest
from botocore.exceptions import ClientError, ParamValidationError, ReadTimeoutError

from simulation.aws.cloud import FakeAws
from simulation.aws.dynamodb.client import FakeDynamoDB
from simulation.aws.errors import lost_answer, throttle, unavailable
from simulation.aws.service import Answer, Call, Proceed
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


# Each call of a fake passes one gate, which counts it and can make it fail.


@pytest.fixture
def world() -> FakeAws:
    world = FakeAws()
    world.s3.create_bucket(Bucket="data")
    return world


def keys(world: FakeAws) -> list[str]:
    return list(world.s3.buckets["data"].objects)


def test_call_fails_before_it_takes_effect(world: FakeAws) -> None:
    def around(call: Call, proceed: Proceed) -> Answer:
        del proceed
        raise throttle(call)

    world.gate.around = around
    with pytest.raises(ClientError, match=r"SlowDown.*PutObject"):
        world.s3.put_object(Bucket="data", Key="a")
    assert keys(world) == []


@pytest.mark.parametrize("fault", [lost_answer, unavailable])
def test_call_fails_after_it_took_effect(world: FakeAws, fault: type[Exception]) -> None:
    def around(call: Call, proceed: Proceed) -> Answer:
        proceed()
        raise fault(call)

    world.gate.around = around
    with pytest.raises((ClientError, ReadTimeoutError)):
        world.s3.put_object(Bucket="data", Key="a")
    assert keys(world) == ["a"]


def test_calls_are_counted_and_the_latest_are_kept(world: FakeAws) -> None:
    for key in ("a", "b"):
        world.s3.put_object(Bucket="data", Key=key)
    with pytest.raises(ClientError):
        world.sqs.get_queue_url(QueueName="jobs")
    assert world.gate.counts == {"s3.CreateBucket": 1, "s3.PutObject": 2, "sqs.GetQueueUrl": 1}
    assert [call.arguments.get("Key") for call in world.gate.calls] == [None, "a", "b", None]
