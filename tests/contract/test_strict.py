"""What AWS leaves open or to chance, the strict fakes play as a test or a world chooses.

The rules of AWS stand in `tests/fidelity`.
"""

from typing import Any

import pytest
from botocore.exceptions import ParamValidationError

from simulation.aws.cloud import FakeAws
from simulation.aws.dynamodb.client import FakeDynamoDB
from simulation.aws.ecs.client import Task
from simulation.aws.s3.client import FakeS3
from simulation.aws.s3.uploads import Completion, Meanwhile
from simulation.aws.sqs.client import FakeSqs
from simulation.aws.stepfunctions.client import Execution
from tests.builders import MACHINE
from tests.contract.conftest import create_leases_table
from tests.contract.refusals import refused
from tests.fidelity.dynamodb import KEY, OTHER
from tests.fidelity.machines import ROLE_ARN
from tests.fidelity.s3 import upload_to
from tests.fidelity.sqs import NOT_IN_FLIGHT, counts, extended, held, send

# S3.


@pytest.fixture
def s3(fake: FakeAws) -> FakeS3:
    fake.s3.create_bucket(Bucket="data")
    return fake.s3


def begin(s3: FakeS3) -> tuple[dict[str, str], dict[str, Any]]:
    """An upload with one part, and what completes it."""
    _, upload, completion = upload_to(s3, "out/a", ChecksumAlgorithm="CRC32")
    return upload, completion


def test_repeated_completion_is_refused_when_s3_has_forgotten_the_upload(s3: FakeS3) -> None:
    s3.repeats_answers = lambda: False
    upload, completion = begin(s3)
    s3.complete_multipart_upload(**upload, **completion)
    with refused("NoSuchUpload"):
        s3.complete_multipart_upload(**upload, **completion)


def completing(s3: FakeS3, how: Completion) -> tuple[dict[str, str], dict[str, Any]]:
    """An upload that S3 completes for a caller that is gone."""

    def gone(_seconds: float) -> None:
        raise KeyboardInterrupt

    sleep, s3.sleep, s3.completion = s3.sleep, gone, lambda _key: how
    upload, completion = begin(s3)
    with pytest.raises(KeyboardInterrupt):
        s3.complete_multipart_upload(**upload, **completion)
    s3.sleep = sleep
    return upload, completion


def keys(s3: FakeS3) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket="data").get("Contents", [])]


@pytest.mark.parametrize("meanwhile", ["gone", "repeats", "waits"])
def test_completion_goes_on_without_its_caller(
    fake: FakeAws, s3: FakeS3, meanwhile: Meanwhile
) -> None:
    upload, completion = completing(s3, Completion(300, meanwhile))
    assert keys(s3) == []
    if meanwhile == "gone":
        with refused("NoSuchUpload"):
            s3.complete_multipart_upload(**upload, **completion)
        with refused("NoSuchUpload"):
            s3.abort_multipart_upload(**upload)
    else:
        assert "Uploads" in s3.list_multipart_uploads(Bucket="data")
        s3.complete_multipart_upload(**upload, **completion)
    assert keys(s3) == (["out/a"] if meanwhile == "waits" else [])
    fake.clock.advance(300)
    assert keys(s3) == ["out/a"]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="data")


def test_completion_may_fail_inside_a_200_and_leaves_the_upload_pending(s3: FakeS3) -> None:
    s3.completion = lambda _key: Completion(40, fails=True)
    upload, completion = begin(s3)
    with refused("InternalError"):
        s3.complete_multipart_upload(**upload, **completion)
    assert (keys(s3), len(s3.list_multipart_uploads(Bucket="data")["Uploads"])) == ([], 1)
    s3.completion = lambda _key: Completion()
    s3.complete_multipart_upload(**upload, **completion)
    assert keys(s3) == ["out/a"]


def test_upload_aborted_while_it_is_completed_leaves_no_object(fake: FakeAws, s3: FakeS3) -> None:
    upload, _ = completing(s3, Completion(300, "waits"))
    s3.abort_multipart_upload(**upload)
    fake.clock.advance(300)
    assert keys(s3) == []


def test_folders_are_listed_in_order_and_in_pages(s3: FakeS3) -> None:
    for key in ("a/1", "b/x/1", "b/x/2", "b/y/1", "c/1"):
        s3.put_object(Bucket="data", Key=key)
    s3.page_size = 1

    pages = list(
        s3.get_paginator("list_objects_v2").paginate(Bucket="data", Prefix="b/", Delimiter="/")
    )

    assert [page.get("CommonPrefixes") for page in pages] == [
        [{"Prefix": "b/x/"}],
        [{"Prefix": "b/y/"}],
    ]


def test_a_part_is_copied_from_a_range_of_an_object(s3: FakeS3) -> None:
    s3.put_object(Bucket="data", Key="saved/a", Body=b"abcdef")
    upload, _ = begin(s3)
    source = {"Bucket": "data", "Key": "saved/a"}

    def copy(key: str, of: str) -> dict[str, Any]:
        return s3.upload_part_copy(
            **upload, PartNumber=1, CopySource={**source, "Key": key}, CopySourceRange=of
        )["CopyPartResult"]

    with refused("NoSuchKey"):
        copy("saved/b", "bytes=0-1")
    with refused("InvalidRange"):
        copy("saved/a", "bytes=4-6")
    copied = copy("saved/a", "bytes=1-3")
    part = {"PartNumber": 1, **copied}
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [part]})
    assert s3.get_object(Bucket="data", Key="out/a")["Body"].read() == b"bcd"


# SQS.


@pytest.fixture
def sqs(fake: FakeAws) -> FakeSqs:
    return fake.sqs


@pytest.fixture
def jobs(sqs: FakeSqs) -> str:
    attributes = {"VisibilityTimeout": "120"}
    return str(sqs.create_queue(QueueName="jobs", Attributes=attributes)["QueueUrl"])


def receive(sqs: FakeSqs, queue: str, **more: Any) -> list[dict[str, Any]]:
    asked = {"MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"], **more}
    return list(sqs.receive_message(QueueUrl=queue, **asked).get("Messages", []))


def test_stale_handle_fails_is_ignored_or_works_as_the_test_chooses(
    fake: FakeAws, sqs: FakeSqs, jobs: str
) -> None:
    handle = held(sqs, jobs, 120)
    fake.clock.advance(120)
    assert extended(sqs, jobs, handle) == NOT_IN_FLIGHT
    receive(sqs, jobs)
    assert extended(sqs, jobs, handle) == "InvalidParameterValue"
    sqs.delete_message(QueueUrl=jobs, ReceiptHandle=handle)
    assert counts(sqs, jobs) == "0 visible, 1 in flight, 0 delayed"

    sqs.stale_handles = lambda: "work"
    assert extended(sqs, jobs, handle, 0) == "ok"
    assert counts(sqs, jobs) == "1 visible, 0 in flight, 0 delayed"
    sqs.delete_message(QueueUrl=jobs, ReceiptHandle=handle)
    assert counts(sqs, jobs) == "0 visible, 0 in flight, 0 delayed"


def test_message_is_redelivered_while_in_flight_and_after_its_delete(
    sqs: FakeSqs, jobs: str
) -> None:
    sent = str(sqs.send_message(QueueUrl=jobs, MessageBody="job")["MessageId"])
    (first,) = receive(sqs, jobs)
    sqs.redeliver(jobs, sent)
    (second,) = receive(sqs, jobs)
    sqs.delete_message(QueueUrl=jobs, ReceiptHandle=second["ReceiptHandle"])
    assert counts(sqs, jobs) == "0 visible, 0 in flight, 0 delayed"
    sqs.redeliver(jobs, sent)
    (third,) = receive(sqs, jobs)
    assert len({each["ReceiptHandle"] for each in (first, second, third)}) == 3
    assert third["Attributes"]["ApproximateReceiveCount"] == "3"
    assert receive(sqs, jobs) == []


def test_messages_are_received_out_of_order(sqs: FakeSqs, jobs: str) -> None:
    for n in range(4):
        send(sqs, jobs, MessageBody=str(n))
    sqs.reorder = lambda visible: visible.reverse()
    assert [each["Body"] for each in receive(sqs, jobs, MaxNumberOfMessages=3)] == ["3", "2", "1"]
    assert [each["Body"] for each in receive(sqs, jobs)] == ["0"]


# DynamoDB.


ROW = KEY | {"n": {"N": "5"}, "s": {"S": "abc"}, "open": {"S": "main#RUNNING"}}


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
    assert db.get_item(TableName="leases", Key=KEY, ConsistentRead=True)["Item"]["x"] == {
        "S": "abc"
    }


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
    db.get_item(TableName="leases", Key=OTHER, ConsistentRead=True)["Item"]["x"] = {"S": "after"}
    assert db.get_item(TableName="leases", Key=OTHER, ConsistentRead=True)["Item"]["x"] == {
        "S": "before"
    }


# ECS, and Step Functions, which tells its engine and its listeners of starts and stops.


def test_stop_sends_sigterm_and_then_sigkill(fake: FakeAws) -> None:
    ecs, container = fake.ecs, {"name": "job", "image": "job"}
    ecs.create_cluster(clusterName="jobs")
    ecs.register_task_definition(family="small", containerDefinitions=[container])

    class Stubborn:
        def __init__(self) -> None:
            self.sigterms: list[Task] = []

        def launched(self, task: Task) -> None:
            ecs.run(task)

        def terminated(self, task: Task) -> None:
            self.sigterms.append(task)

    ecs.containers = stubborn = Stubborn()
    (started,) = ecs.run_task(cluster="jobs", taskDefinition="small")["tasks"]
    task = ecs.clusters[started["clusterArn"]].tasks[started["taskArn"]]
    ecs.stop_task(cluster="jobs", task=task.arn, reason="Longhaul: stalled")
    ecs.stop_task(cluster="jobs", task=task.arn, reason="again")
    assert stubborn.sigterms == [task]
    assert task.killed_at is not None
    assert (task.killed_at - fake.clock.now()).total_seconds() == 30
    ecs.end(task, stop_code="EssentialContainerExited", reason="exited", exit_code=75)
    assert (task.stop_code, task.stopped_reason, task.exit_code) == (
        "UserInitiated",
        "Longhaul: stalled",
        75,
    )


class Recorder:
    """An engine that runs nothing and records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def started(self, execution: Execution) -> None:
        self.calls.append(("started", execution.name))

    def stopped(self, execution: Execution) -> None:
        self.calls.append(("stopped", execution.name))


def test_engine_sees_starts_and_stops_and_an_execution_ends_once(
    fake: FakeAws,
) -> None:
    sfn, engine, statuses = fake.stepfunctions, Recorder(), list[str]()
    made = sfn.create_state_machine(name="Longhaul", definition=MACHINE, roleArn=ROLE_ARN)
    machine = made["stateMachineArn"]
    sfn.engine = engine
    sfn.status_changed.append(
        lambda execution: statuses.append(f"{execution.name} {execution.status}")
    )
    a, b = (
        sfn.start_execution(stateMachineArn=machine, name=name, input="{}")["executionArn"]
        for name in ("a", "b")
    )
    sfn.start_execution(stateMachineArn=machine, name="a", input="{}")
    fake.clock.advance(60)
    sfn.stop_execution(executionArn=a, error="Operator", cause="by hand")
    sfn.close(sfn.executions[a], "SUCCEEDED")
    sfn.close(sfn.executions[b], "FAILED", error="RELEASED", cause="{}")
    sfn.stop_execution(executionArn=b)
    assert engine.calls == [("started", "a"), ("started", "b"), ("stopped", "a")]
    assert statuses == ["a RUNNING", "b RUNNING", "a ABORTED", "b FAILED"]
    stopped = sfn.describe_execution(executionArn=a)
    assert (stopped["status"], stopped["error"], stopped["stopDate"]) == (
        "ABORTED",
        "Operator",
        fake.clock.now(),
    )
