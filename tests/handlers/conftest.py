"""The real handlers with their real adapters, against the strict fakes: a stack's queues, table, bucket and state machine under the names in `events/`.

The adapters' own contract tests run on moto too, and so does the whole stack (`tests/e2e`).
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from functions import dispatcher, heartbeat, settle, sweeper
from functions.wiring import Wiring
from longhaul.domain.claim import Claim
from longhaul.domain.lease import Lease
from longhaul.domain.message import MessageContent
from longhaul.settings import VARIABLE, LeaseSettings, RuntimeSettings, Stage, runtime_settings
from tests import builders
from tests.builders import BUCKET, running, settings
from tests.contract.conftest import create_leases_table
from tests.events import event
from tests.fakes.aws import FakeAws
from tests.fakes.clock import VirtualClock
from tests.fakes.ecs_tasks import Task
from tests.fakes.shapes import checked
from tests.fakes.sqs import FakeSqs
from tests.fakes.stepfunctions import FakeStepFunctions

# As the template has them.
JOBS_QUEUE = {"VisibilityTimeout": "120", "MessageRetentionPeriod": str(10 * 86_400)}
DEAD_LETTER_QUEUE = {"MessageRetentionPeriod": str(14 * 86_400)}


@dataclass(frozen=True)
class Stack:
    """What a test looks at from outside."""

    aws: FakeAws
    settings: RuntimeSettings
    parts: Wiring
    jobs_url: str
    dead_letters_url: str

    @property
    def sqs(self) -> FakeSqs:
        return self.aws.sqs

    @property
    def sfn(self) -> FakeStepFunctions:
        return self.aws.stepfunctions

    @property
    def stopped_tasks(self) -> list[str]:
        """Tasks that somebody wanted stopped, whether or not ECS still knew them."""
        return [call.arguments["task"] for call in self.aws.gate.calls if call.operation == "StopTask"]

    def start_task(self, lease: Lease) -> Task:
        """A task that ECS knows, registered as the attempt's. It heeds no SIGTERM."""
        container = {"name": "job", "image": "job", "stopTimeout": self.settings.lease.stop_timeout_s}
        self.aws.ecs.register_task_definition(family="Longhaul-small", containerDefinitions=[container])
        (started,) = self.aws.ecs.run_task(cluster="Longhaul", taskDefinition="Longhaul-small")["tasks"]
        task = self.aws.ecs.clusters[self.settings.cluster_arn].tasks[started["taskArn"]]
        self.aws.ecs.run(task)
        self.parts.leases.register_task(lease.id, task.arn, self.aws.clock.now())
        return task

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

    def redeploy(self, **stage: Any) -> None:
        """New functions, with other settings of the stage; what is in the world stays. Undone when the stack goes."""
        (old,) = self.settings.stages
        changed = self.settings.model_copy(update={"stages": (old.model_copy(update=stage),)})
        os.environ[VARIABLE] = changed.model_dump_json()
        forget_runtimes()

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
        self.aws.s3.put_object(Bucket=BUCKET, Key=lease.request_ref, Body=json.dumps({"body": "{}", "attributes": {}}))
        return lease


@contextmanager
def deployed(
    *,
    clock: VirtualClock | None = None,
    lease: Mapping[str, Any] | None = None,
    check: bool = False,
    stages: tuple[Stage, ...] = (),
    **stage: Any,
) -> Iterator[Stack]:
    """A stack on strict fakes of its own, where nobody waits for a slot unless told to.

    Args:
        clock: its time.
        lease: changes of the lease's numbers.
        check: hold every call against botocore's models, which takes half of the time of a test with thousands of them.
        stages: its stages, the first one's queues being those that `events/` name.
        stage: without `stages`, changes of the settings of its one stage.
    """
    fake = FakeAws(clock, around=checked if check else None)
    stages = stages or (builders.stage(**stage),)
    for each in stages:
        dead = fake.sqs.create_queue(
            QueueName=each.dead_letter_queue_url.rpartition("/")[2], Attributes=DEAD_LETTER_QUEUE
        )["QueueUrl"]
        last_resort = {"deadLetterTargetArn": fake.sqs.queues[dead].arn, "maxReceiveCount": 1000}
        queue = JOBS_QUEUE | {"RedrivePolicy": json.dumps(last_resort)}
        fake.sqs.create_queue(QueueName=each.queue_url.rpartition("/")[2], Attributes=queue)
    fake.s3.create_bucket(Bucket=BUCKET)
    fake.ecs.create_cluster(clusterName="Longhaul")
    fake.stepfunctions.create_state_machine(
        name="Longhaul", definition="{}", roleArn="arn:aws:iam::123456789012:role/x"
    )
    known = settings(
        leases_table=create_leases_table(fake.dynamodb),
        stages=stages,
        lease=LeaseSettings(**{"slot_wait_s": 0, **(lease or {})}),
    )
    with pytest.MonkeyPatch.context() as patch:
        # The handlers make their own clients and their own clock: these.
        patch.setattr(boto3, "client", fake.client)
        patch.setattr("functions.wiring.SystemClock", lambda: fake.clock)
        patch.setitem(os.environ, VARIABLE, known.model_dump_json())
        forget_runtimes()
        yield Stack(fake, known, Wiring(known), stages[0].queue_url, stages[0].dead_letter_queue_url)
    forget_runtimes()


def forget_runtimes() -> None:
    """As a function's new process: what the one before had built is gone."""
    for each in (dispatcher, heartbeat, settle, sweeper):
        each.build_runtime.cache_clear()
    runtime_settings.cache_clear()


@pytest.fixture
def stack() -> Iterator[Stack]:
    with deployed(check=True) as found:
        yield found


@pytest.fixture
def aws(stack: Stack) -> FakeAws:
    return stack.aws


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


@pytest.fixture(scope="session")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every job writes: one small file."""
    folder = tmp_path_factory.mktemp("output")
    (folder / "part-00000.json").write_text('{"answer":42}\n')
    return folder
