"""Every call of every fake goes through one gate, where it is counted and may fail before or after it took effect."""

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.fakes.aws import FakeAws
from tests.fakes.faults import lost_answer, throttle, unavailable
from tests.fakes.service import Answer, Call, Proceed


@pytest.fixture
def world() -> FakeAws:
    world = FakeAws()
    world.s3.create_bucket(Bucket="data")
    return world


def keys(world: FakeAws) -> list[str]:
    return list(world.s3.buckets["data"].objects)


def test_a_call_may_fail_before_it_took_effect(world: FakeAws) -> None:
    def around(call: Call, proceed: Proceed) -> Answer:
        del proceed
        raise throttle(call)

    world.gate.around = around
    with pytest.raises(ClientError, match=r"SlowDown.*PutObject"):
        world.s3.put_object(Bucket="data", Key="a")
    assert keys(world) == []


@pytest.mark.parametrize("fault", [lost_answer, unavailable])
def test_a_call_may_fail_after_it_took_effect(world: FakeAws, fault: type[Exception]) -> None:
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


def test_two_worlds_of_the_same_calls_are_equal(world: FakeAws) -> None:
    def history(world: FakeAws) -> list[Answer]:
        url = world.sqs.create_queue(QueueName="jobs")["QueueUrl"]
        sent = [world.sqs.send_message(QueueUrl=url, MessageBody=str(n)) for n in range(3)]
        return [*sent, world.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)]

    assert history(world) == history(FakeAws())
