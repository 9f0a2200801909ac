"""The command line against the strict fakes, with a deployed stack."""

import json
from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from typer.testing import CliRunner, Result

from longhaul.cli.cli import app
from longhaul.cli.place import Place
from longhaul.cli.target import Target
from longhaul.config import project_file
from longhaul.config.sources import version
from longhaul.core import transitions
from longhaul.core.claim import new_run, next_attempt, refused
from longhaul.core.dead_letter import Reason, dead_letter
from longhaul.core.lease import CommittedOutput, Lease, Owed, Receive, State
from longhaul.core.message import Message
from longhaul.core.request import JobRequest
from longhaul.core.settings import VARIABLE, RuntimeSettings, Stage
from longhaul.core.settlement import after_verdict, with_task
from longhaul.core.store.records import BATCH_GET
from longhaul.core.verdict import Evidence, OutcomeClass, Verdict
from longhaul.engines.listed import ENGINES
from longhaul.pipelines.follow_ons import replaced
from longhaul.wiring import Wiring
from simulation.aws.clock import VirtualClock
from simulation.aws.cloud import FakeAws
from simulation.aws.console import (
    DeployedStack,
    FakeCloudFormation,
    FakeCloudWatch,
    FakeIam,
    FakeLambda,
    FakeLogs,
    FakeServiceQuotas,
    FakeSsm,
    FakeSts,
)
from simulation.aws.shapes import checked
from tests.builders import (
    BODY,
    BUCKET,
    DEAD_LETTER_QUEUE_URL,
    MACHINE,
    OUTPUT,
    QUEUE_URL,
    message,
    running,
    settings,
    stage,
    there,
)
from tests.contract.conftest import create_leases_table

if TYPE_CHECKING:
    from collections.abc import Callable

PLACE = Place(None, "us-east-1", None, embedded=False)


class Clock(VirtualClock):
    """Each sleep calls the next function of `meanwhile`."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: deque[Callable[[], Any]] = deque()

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.meanwhile:
            self.meanwhile.popleft()()


class Aws(FakeAws):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, around=checked)
        self.cloudformation = FakeCloudFormation(self.gate)
        self.lambda_ = FakeLambda(self.gate)
        self.logs = FakeLogs(self.gate, clock.now)
        self.sts = FakeSts(self.gate)
        self.iam = FakeIam(self.gate)
        self.ssm = FakeSsm(self.gate)
        self.quotas = FakeServiceQuotas(self.gate)
        self.cloudwatch = FakeCloudWatch(self.gate)

    def client(self, service_name: str, **_: Any) -> Any:
        return getattr(
            self, {"lambda": "lambda_", "service-quotas": "quotas"}.get(service_name, service_name)
        )


@dataclass
class Session:
    """Replaces `boto3.Session`."""

    aws: Aws
    region_name: str | None = "us-east-1"

    def client(self, service: str, **_: Any) -> Any:
        return self.aws.client(service)


def ran(
    *arguments: str,
    code: int | None = 0,
    says: str = "",
    prints: str | None = None,
    input: str | bytes | None = None,  # noqa: A002 - the runner's name
) -> Result:
    """Run a command, which ends with this code.

    Args:
        arguments: what is typed.
        code: the exit code; None, if it may have any.
        says: what stderr has, among other text.
        prints: all of stdout, if it is given.
        input: what stdin has.
    """
    done = CliRunner().invoke(app, list(arguments), input=input)
    assert done.exception is None or isinstance(done.exception, SystemExit), "a traceback"
    assert code in (None, done.exit_code), done.output
    assert says in done.stderr, done.stderr
    assert prints in (None, done.stdout), done.stdout
    return done


@dataclass
class World:
    """The state that a test arranges and checks."""

    aws: Aws
    clock: Clock
    settings: RuntimeSettings
    parts: Wiring

    def deploy(self, name: str = "Longhaul", **changes: Any) -> DeployedStack:
        outputs = {
            "JobsQueueUrl": QUEUE_URL,
            "DeadLetterQueueUrl": DEAD_LETTER_QUEUE_URL,
            "LeasesTableName": "leases",
            "StateMachineArn": self.settings.state_machine_arn,
            "DataBucketName": BUCKET,
            "LonghaulVersion": version(),
        }
        resources = {
            "Dispatcher1": ("AWS::Lambda::Function", f"{name}-Dispatcher"),
            "Alarm1": ("AWS::CloudWatch::Alarm", f"{name}-SweeperStopped"),
        }
        self.aws.lambda_.mappings = [
            {
                "UUID": "00000000-0000-4000-8000-000000000000",
                "EventSourceArn": "arn:aws:sqs:us-east-1:123456789012:"
                + each.queue_url.rpartition("/")[2],
                "State": "Enabled",
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
            }
            for each in self.settings.stages
        ]
        self.aws.lambda_.functions[f"{name}-Dispatcher"] = {
            VARIABLE: self.settings.model_dump_json()
        }
        stack = DeployedStack(name, outputs=outputs, resources=resources)
        self.aws.cloudformation.stacks[name] = replace(stack, **changes)
        return stack

    def redeploy(self, **changes: Any) -> None:
        """Deploy the stack with other settings."""
        self.settings = self.settings.model_copy(update=changes)
        self.deploy()

    def run(self, *arguments: str, **expected: Any) -> Result:
        return ran(*arguments, **expected)

    def queued(self) -> list[dict[str, Any]]:
        """The messages in the jobs queue, with their attributes. Each is received once."""
        found = []
        while messages := self.aws.sqs.receive_message(
            QueueUrl=QUEUE_URL,
            MaxNumberOfMessages=10,
            VisibilityTimeout=43_200,
            MessageAttributeNames=["All"],
        ).get("Messages"):
            found += messages
        return found

    def claim(self, job_id: str, of: Stage | None = None, **changes: Any) -> Lease:
        """A running job."""
        now, where = self.clock.now(), of or self.settings.stages[0]
        lease = running(
            key=f"{where.name}#{job_id}",
            stage=where.name,
            run=round(now.timestamp() * 1000),
            claimed_at=now,
            lease_expires_at=now + timedelta(seconds=90),
            message_id=f"m-{job_id}",
            **changes,
        )
        self.parts.leases.apply(transitions.claim(None, lease, where))
        self.parts.requests.put(lease.request_ref, Message(json.dumps(BODY), {}))
        return lease

    def retry(self, released: Lease, after_s: float = 600) -> Lease:
        """The next attempt of a released job."""
        self.clock.advance(after_s)
        now = self.clock.now()
        changes: dict[str, Any] = {
            "message_id": released.receive.message_id,
            "received_at": now,
            "key": released.key,
        }
        claimed = next_attempt(released, message(**changes), self.settings.lease, now)
        self.parts.leases.apply(transitions.claim(released, claimed, self.settings.stages[0]))
        return claimed

    def again(self, ended: Lease) -> Lease:
        """A new run of a job that has ended, a second later."""
        self.clock.advance(1)
        now = self.clock.now()
        row = new_run(ended, message(key=ended.key), stage(), self.settings.lease, now)
        self.parts.leases.apply(transitions.claim(ended, row, stage()))
        return row

    def end(
        self,
        lease: Lease,
        kind: OutcomeClass = OutcomeClass.PERMANENT,
        why: str = "why",
        evidence: Evidence = Evidence(),  # noqa: B008 - frozen
        *,
        owes: bool = False,
    ) -> Lease:
        """End the job, with nothing owed unless `owes`."""
        now = self.clock.now()
        after = after_verdict(
            with_task(lease, evidence, ENGINES),
            Verdict(kind, why),
            self.settings.stages[0],
            self.settings.lease,
            now,
            self.parts.rng,
        ).lease
        self.parts.leases.apply(transitions.settle(lease, after))
        for owed in () if owes else after.owed:
            after = self.parts.leases.apply(transitions.strike(after, Owed(owed), now))
        return after

    def succeed(self, row: Lease, output: CommittedOutput = OUTPUT, *, owes: bool = False) -> Lease:
        """End a running job that has written this; if it owes nothing, its joins have it."""
        committed = self.parts.leases.report(transitions.commit(row.id, output))
        ended = self.end(committed, OutcomeClass.SUCCEEDED, owes=owes)
        emitted = {stage: [{}] * count for stage, count in (output.emitted or {}).items()} or None
        for each in () if owes else replaced(ended, emitted, self.settings):
            self.parts.joins.note_success(each, self.clock.now())
        return ended

    def interrupt(self) -> None:
        """Ctrl-C in the next sleep."""

        def interrupt() -> None:
            raise KeyboardInterrupt

        self.clock.meanwhile.append(interrupt)

    def refuse(self, key: str, why: str, request: JobRequest | None = None) -> Lease:
        """A job that was refused before it had a run, with nothing owed."""
        reason = Reason(kind="invalid_request", reason=why, key=key)
        received = Receive(f"m-{key}", first_sent_at=self.clock.now())
        old, stage = self.parts.leases.load(key), key.partition("#")[0]
        row = refused(old, reason, key, stage, received, request, self.clock.now())
        return self.parts.leases.apply(transitions.refuse(old, replace(row, owed=())))

    def bury(
        self,
        job_id: str,
        kind: str = "failed",
        why: str = "why",
        *,
        label: str | None = None,
        **attributes: Any,
    ) -> str:
        """Send a dead letter as Longhaul does, and return its message id."""
        reason = Reason(kind=kind, reason=why, key=f"main#{job_id}", attempts=3)
        named = {"label": label} if label else {}
        content = Message(json.dumps({**BODY, **named, "params": {"of": job_id}}), attributes)
        self.parts.queue.send(DEAD_LETTER_QUEUE_URL, dead_letter(content, reason))
        return list(self.aws.sqs.queues[DEAD_LETTER_QUEUE_URL].messages)[-1]

    def dead(self) -> list[str]:
        """The ids of the dead letters, all of which must be visible."""
        now = self.clock.now().timestamp()
        messages = self.aws.sqs.queues[DEAD_LETTER_QUEUE_URL].messages
        assert not [each.id for each in messages.values() if each.shows_at > now], "left invisible"
        return list(messages)

    def state(self, job_id: str) -> State:
        lease = there(self.parts.leases.load(f"main#{job_id}"))
        return lease.state


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> World:
    """An account without a stack of Longhaul."""
    clock = Clock()
    aws = Aws(clock)
    retention = {"MessageRetentionPeriod": str(14 * 86_400)}
    for url in (QUEUE_URL, DEAD_LETTER_QUEUE_URL):
        aws.sqs.create_queue(QueueName=url.rpartition("/")[2], Attributes=retention)
    aws.s3.create_bucket(Bucket=BUCKET)
    aws.stepfunctions.create_state_machine(
        name="Longhaul", definition=MACHINE, roleArn="arn:aws:iam::123456789012:role/x"
    )
    known = settings(leases_table=create_leases_table(aws.dynamodb), stages=(stage(slots=1000),))
    monkeypatch.setattr("longhaul.wiring.SystemClock", lambda: clock)
    monkeypatch.setattr(boto3, "Session", lambda **_: Session(aws))
    monkeypatch.setattr("longhaul.cli.target.locate", lambda *_: PLACE)
    return World(aws, clock, known, Wiring(known, aws.client, most_rows=BATCH_GET))


@pytest.fixture
def world(bare: World) -> World:
    """An account with the stack `Longhaul`."""
    bare.deploy()
    return bare


@pytest.fixture
def target(world: World) -> Target:
    del world
    return Target(PLACE, None)


@pytest.fixture
def no_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets the variables; they must not reach other tests."""
    for each in (project_file.VARIABLE, project_file.ENV_VARIABLE):
        monkeypatch.setenv(each, "")
        monkeypatch.delenv(each)


@pytest.fixture
def ctrl_c_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, twice, while a submission waits for its calls."""
    calls = count(1)

    def interrupted(_futures: Any) -> None:
        if next(calls) < 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("longhaul.operations.submit.wait", interrupted)
