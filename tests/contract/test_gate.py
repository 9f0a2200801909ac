"""Each call of a fake passes one gate, which counts it and can make it fail."""

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from simulation.aws.cloud import FakeAws
from simulation.aws.errors import lost_answer, throttle, unavailable
from simulation.aws.service import Answer, Call, Proceed


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
