"""The real handlers with their real adapters, against moto in this process: a stack's queues, table, bucket and state machine under the names in `events/`."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from functions import dispatcher, heartbeat, settle, sweeper
from functions.wiring import Wiring
from longhaul.domain.lease import Claim, Lease
from longhaul.domain.message import MessageContent
from longhaul.settings import VARIABLE, RuntimeSettings, runtime_settings
from tests.builders import BUCKET, running, settings
from tests.contract.conftest import table  # noqa: F401 - a fixture
from tests.events import event

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_stepfunctions import SFNClient


@pytest.fixture
def aws() -> Iterator[None]:
    caches: list[Callable[[], None]] = [
        each.build_runtime.cache_clear for each in (dispatcher, heartbeat, settle, sweeper)
    ]
    with mock_aws():
        yield
    for clear in [*caches, runtime_settings.cache_clear]:
        clear()


@dataclass(frozen=True)
class Stack:
    """What a test looks at from outside."""

    settings: RuntimeSettings
    parts: Wiring
    sqs: "SQSClient"
    sfn: "SFNClient"
    jobs_url: str
    dead_letters_url: str
    stopped_tasks: list[str]

    def dead_letters(self) -> list[tuple[str, dict[str, Any]]]:
        """Body and explanation of each dead letter."""
        answer = self.sqs.receive_message(
            QueueUrl=self.dead_letters_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        return [
            (m["Body"], json.loads(m["MessageAttributes"]["longhaul"]["StringValue"]))
            for m in answer.get("Messages", [])
        ]

    def executions(self) -> list[str]:
        found = self.sfn.list_executions(stateMachineArn=self.settings.state_machine_arn)["executions"]
        return [self.sfn.describe_execution(executionArn=each["executionArn"])["input"] for each in found]

    def row(self, job_id: str = "flights-2013-01") -> Lease:
        lease = self.parts.leases.load(f"main#{job_id}")
        assert lease is not None
        return lease

    def content(self, case: str) -> MessageContent:
        return MessageContent(event("dispatcher", case)["Records"][0]["body"], {})

    def free_slots(self) -> int:
        return self.parts.leases.free_slots(self.settings.stages[0], self.parts.clock.now())

    def held_message(self) -> tuple[str, str]:
        """A message in the jobs queue, received: its id and receipt handle."""
        sent = self.sqs.send_message(QueueUrl=self.jobs_url, MessageBody="{}")
        (received,) = self.sqs.receive_message(QueueUrl=self.jobs_url, VisibilityTimeout=120)["Messages"]
        assert received["MessageId"] == sent["MessageId"]
        return received["MessageId"], received["ReceiptHandle"]

    def messages(self) -> tuple[int, int]:
        """Visible and invisible messages of the jobs queue."""
        names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.jobs_url, AttributeNames=names)["Attributes"]
        return int(found[names[0]]), int(found[names[1]])

    def claim(self, **changes: Any) -> Lease:
        """A running job under the key and attempt that `events/` speak of, its message held."""
        message_id, handle = self.held_message()
        execution = running().input.model_copy(
            update={"key": "main#flights-2013-01", "job_id": "flights-2013-01", "run": 1_767_323_045_000}
        )
        lease = running(
            key=execution.key,
            run=execution.run,
            message_id=message_id,
            receipt_handle=handle,
            execution_input=execution.model_dump_json(),
        )
        lease = replace(
            lease,
            **{
                "claimed_at": self.parts.clock.now() - timedelta(seconds=60),
                "received_at": self.parts.clock.now(),
                **changes,
            },
        )
        self.parts.leases.claim(Claim(lease, replaces=None), self.settings.stages[0])
        boto3.client("s3").put_object(
            Bucket=BUCKET, Key=lease.request_ref, Body=json.dumps({"body": "{}", "attributes": {}})
        )
        return lease


@pytest.fixture
def stack(table: str, monkeypatch: pytest.MonkeyPatch) -> Stack:  # noqa: F811 - the fixture
    sqs, sfn = boto3.client("sqs"), boto3.client("stepfunctions")
    jobs = sqs.create_queue(QueueName="Longhaul-main-jobs", Attributes={"VisibilityTimeout": "120"})["QueueUrl"]
    dead = sqs.create_queue(QueueName="Longhaul-main-dead-letters")["QueueUrl"]
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    definition = json.dumps({"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}})
    sfn.create_state_machine(name="Longhaul", definition=definition, roleArn="arn:aws:iam::123456789012:role/x")
    known = settings(leases_table=table)
    known = known.model_copy(update={"lease": known.lease.model_copy(update={"slot_wait_s": 0})})
    monkeypatch.setitem(os.environ, VARIABLE, known.model_dump_json())
    stopped: list[str] = []
    # moto's ECS knows no task that it did not start, and starting one needs a whole network.
    monkeypatch.setattr("longhaul.adapters.ecs_tasks.EcsTasks.stop", lambda _, task_arn, __: stopped.append(task_arn))
    return Stack(known, Wiring(known), sqs, sfn, jobs, dead, stopped)


@dataclass
class Context:
    """What Powertools reads of a Lambda context."""

    function_name: str = "function"
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:function"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"
    tenant_id: str | None = None


@pytest.fixture
def context() -> Context:
    return Context()
