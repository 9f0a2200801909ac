"""The real handlers and adapters against the strict fakes of AWS.

A `Stack` has the queues, table, bucket and state machine that `events/` name. The adapters'
contract tests run on moto too, and `tests/e2e` runs the whole stack there.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions import dispatcher, heartbeat, settle, sweeper
from longhaul.core import transitions
from longhaul.core.lease import Lease
from longhaul.core.settings import VARIABLE, LeaseSettings, RuntimeSettings, Stage, runtime_settings
from longhaul.pipelines.follow_ons import with_joins
from longhaul.wiring import Wiring
from simulation.aws.clock import VirtualClock
from simulation.aws.cloud import FakeAws
from simulation.aws.ecs.client import Task
from simulation.aws.shapes import checked
from simulation.aws.sqs.client import FakeSqs
from simulation.aws.stepfunctions.client import FakeStepFunctions
from tests import builders
from tests.builders import BUCKET, MACHINE, changed, running, settings, there
from tests.contract.conftest import create_leases_table

# The attributes that the template sets.
JOBS_QUEUE = {"VisibilityTimeout": "120", "MessageRetentionPeriod": str(10 * 86_400)}
DEAD_LETTER_QUEUE = {"MessageRetentionPeriod": str(14 * 86_400)}


@dataclass(frozen=True)
class Stack:
    """A deployed stack, as a test sees it from outside."""

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
        """The task of each StopTask call, whether or not ECS still knew it."""
        return [
            call.arguments["task"] for call in self.aws.gate.calls if call.operation == "StopTask"
        ]

    def start_task(self, lease: Lease) -> Task:
        """Run a task in ECS and register it as the attempt's. It ignores SIGTERM."""
        container = {
            "name": "job",
            "image": "job",
            "stopTimeout": self.settings.lease.stop_timeout_s,
        }
        self.aws.ecs.register_task_definition(
            family="Longhaul-small", containerDefinitions=[container]
        )
        named = {"KEY": lease.key, "RUN": lease.run, "ATTEMPT": lease.attempt.number}
        environment = [{"name": f"LONGHAUL_{name}", "value": str(v)} for name, v in named.items()]
        (started,) = self.aws.ecs.run_task(
            cluster="Longhaul",
            taskDefinition="Longhaul-small",
            overrides={"containerOverrides": [{"name": "job", "environment": environment}]},
        )["tasks"]
        task = self.aws.ecs.clusters[self.settings.cluster_arn].tasks[started["taskArn"]]
        self.aws.ecs.run(task)
        self.parts.leases.report(
            transitions.register_task(lease.id, task.arn, self.aws.clock.now())
        )
        return task

    def dead_letters(self, stage: Stage | None = None) -> list[tuple[str, dict[str, Any]]]:
        """Body and explanation of each dead letter of a stage; of the first, unless it is given."""
        url = stage.dead_letter_queue_url if stage else self.dead_letters_url
        answer = self.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        return [
            (m["Body"], json.loads(m["MessageAttributes"]["longhaul"]["StringValue"]))
            for m in answer.get("Messages", [])
        ]

    def executions(self) -> list[str]:
        found = self.sfn.list_executions(stateMachineArn=self.settings.state_machine_arn)[
            "executions"
        ]
        return [
            self.sfn.describe_execution(executionArn=each["executionArn"])["input"]
            for each in found
        ]

    def row(self, job_id: str = "flights-2013-01") -> Lease:
        return self.load(f"main#{job_id}")

    def load(self, key: str) -> Lease:
        return there(self.parts.leases.load(key))

    def redeploy(self, *, without: Sequence[str] = (), **stage: Any) -> None:
        """Deploy the first stage with other settings, and take others out.

        Rows, messages and executions stay. The settings return to the old ones when the stack ends.
        """
        first, *others = self.settings.stages
        kept = (each for each in others if each.name not in without)
        self.deploy(stages=(first.model_copy(update=stage), *kept))

    def deploy(self, **changes: Any) -> None:
        """As `redeploy`, with these settings; `settings` stay the old ones."""
        os.environ[VARIABLE] = self.settings.model_copy(update=changes).model_dump_json()
        forget_runtimes()

    def take_slots(self, *, all_: bool = True) -> None:
        """Let other jobs take every slot of the stage, or give all back."""
        running = self.settings.stages[0].slots if all_ else 0
        self.aws.dynamodb.update_item(
            TableName=self.settings.leases_table,
            Key={"key": {"S": "slots#main"}, "item": {"S": "slots"}},
            UpdateExpression="SET running = :running",
            ExpressionAttributeValues={":running": {"N": str(running)}},
        )

    def free_slots(self) -> int:
        return self.parts.slots.room(self.settings.stages[0], self.parts.clock.now()).free

    def held_message(self) -> tuple[str, str]:
        """Send a message and receive it; return its id and receipt handle."""
        sent = self.sqs.send_message(QueueUrl=self.jobs_url, MessageBody="{}")
        (received,) = self.sqs.receive_message(QueueUrl=self.jobs_url, VisibilityTimeout=120)[
            "Messages"
        ]
        assert received["MessageId"] == sent["MessageId"]
        return received["MessageId"], received["ReceiptHandle"]

    def calls_of(self, act: Callable[[], object]) -> Counter[str]:
        """The calls to AWS that it makes."""
        before = self.aws.gate.counts.copy()
        act()
        return self.aws.gate.counts - before

    def messages(self) -> tuple[int, int]:
        """The counts of visible and of invisible messages in the jobs queue."""
        names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.jobs_url, AttributeNames=names)[
            "Attributes"
        ]
        return int(found[names[0]]), int(found[names[1]])

    def claim(self, **changes: Any) -> Lease:
        """Claim the job that `events/` name, its message received; return the lease."""
        message_id, handle = self.held_message()
        execution = running().input.model_copy(
            update={
                "key": "main#flights-2013-01",
                "job_id": "flights-2013-01",
                "run": 1_767_323_045_000,
            }
        )
        lease = running(
            key=execution.key,
            run=execution.run,
            message_id=message_id,
            receipt_handle=handle,
            execution_input=execution.model_dump_json(),
        )
        lease = changed(
            lease,
            **{
                "claimed_at": self.parts.clock.now() - timedelta(seconds=60),
                "received_at": self.parts.clock.now(),
                "opens": with_joins(lease, self.settings).opens,
                **changes,
            },
        )
        self.parts.leases.apply(transitions.claim(None, lease, self.settings.stages[0]))
        self.aws.s3.put_object(
            Bucket=BUCKET, Key=lease.request_ref, Body=json.dumps({"body": "{}", "attributes": {}})
        )
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
    """A stack on its own strict fakes.

    Args:
        clock: the stack's time.
        lease: changed settings of the lease.
        check: validate every call against botocore's models. That takes half the time of a test
            with thousands of calls.
        stages: the stages; the first has the queues that `events/` name.
        stage: changed settings of the one stage, if there are no `stages`.
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
        name="Longhaul", definition=MACHINE, roleArn="arn:aws:iam::123456789012:role/x"
    )
    known = settings(
        leases_table=create_leases_table(fake.dynamodb),
        stages=stages,
        lease=LeaseSettings(**(lease or {})),
    )
    with pytest.MonkeyPatch.context() as patch:
        # The handlers build their own clients and clock: give them the fakes.
        patch.setattr(boto3, "client", fake.client)
        patch.setattr("longhaul.wiring.SystemClock", lambda: fake.clock)
        # What they draw, such as the jitter of a wait, is the same in each run.
        rng = random.Random(1)
        patch.setattr("longhaul.wiring.random", SimpleNamespace(Random=lambda: rng))
        patch.setitem(os.environ, VARIABLE, known.model_dump_json())
        forget_runtimes()
        yield Stack(
            fake, known, Wiring(known), stages[0].queue_url, stages[0].dead_letter_queue_url
        )
    forget_runtimes()


def forget_runtimes() -> None:
    """Drop what the functions have cached, as a new process starts without it."""
    for each in (dispatcher, heartbeat, settle, sweeper):
        each.build.cache_clear()
    runtime_settings.cache_clear()


@dataclass
class Context(LambdaContext):
    """The part of a Lambda context that Powertools and the handlers read."""

    function_name: str = "function"
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:function"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"
    tenant_id: str | None = None
    remaining_ms: int = 300_000

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]  # theirs is static
        return self.remaining_ms
