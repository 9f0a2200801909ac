"""What happens around the handlers: the event source mapping, the runner, the state machine.

Each method is one step, and time passes only when a test advances the clock. The simulation runs
everything at once, with faults.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from functions import dispatcher, heartbeat, settle, sweeper
from longhaul.core import transitions
from longhaul.core.lease import CommittedOutput, Lease
from longhaul.core.settings import Stage
from longhaul.operations.cancel import Canceller
from longhaul.outputs.lineage import InputRead, origin
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.written import Dataset
from longhaul.runner.stopping import Stop
from simulation.aws.service import Answer, Call, Gate, Proceed
from tests import builders
from tests.builders import BUCKET
from tests.events import event
from tests.handlers.stack import Context, Stack
from tests.plans import plan_of

JOB = "january"


class Killed(BaseException):
    """SIGKILL, or the timeout of a function. `except Exception` does not catch it."""


class Kill:
    """Kills the process at the n-th call in the block, before or after the call takes effect.

    A killed process makes no more calls.

    with Kill(gate, 3, after=True) as kill:
        life.dispatch(records)
    kill.happened
    """

    def __init__(self, gate: Gate, call: int, *, after: bool) -> None:
        """`call` counts from 1."""
        self.happened = False
        self._gate, self._left, self._after = gate, call, after
        self._around = gate.around

    def __enter__(self) -> Self:
        self._gate.around = self._call
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._gate.around = self._around
        return isinstance(error, Killed)

    def _call(self, call: Call, proceed: Proceed) -> Answer:
        self._left -= 1
        self.happened = self.happened or self._left == 0
        if self._left < 0 and self.happened:
            raise Killed
        if self._left == 0 and not self._after:
            raise Killed
        answer = self._around(call, proceed) if self._around else proceed()
        if self._left == 0:
            raise Killed
        return answer


@dataclass
class Life:
    stack: Stack
    output: Path  # a folder with the output of every job
    context: Context = field(default_factory=Context)

    @property
    def stage(self) -> Stage:
        return self.stack.settings.stages[0]

    def send(self, job_id: str = JOB, **changes: Any) -> str:
        """Send a request; return the id of its message."""
        own = {"job_id": job_id, "output": f"s3://{BUCKET}/out/{job_id}/"}
        body = builders.body(**own | changes)
        sent = self.stack.sqs.send_message(QueueUrl=self.stack.jobs_url, MessageBody=body)
        return str(sent["MessageId"])

    def receive(self) -> list[dict[str, Any]]:
        """A batch as the mapping passes it on; empty when no message is visible."""
        answer = self.stack.sqs.receive_message(
            QueueUrl=self.stack.jobs_url,
            MaxNumberOfMessages=10,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return [record_of(message) for message in answer.get("Messages", [])]

    def dispatch(self, records: Sequence[dict[str, Any]]) -> list[str]:
        """Pass a batch to the dispatcher as the mapping does; return the ids of kept messages.

        The mapping deletes what the function does not name as failed. If the function dies, the
        mapping deletes nothing.
        """
        if not records:
            return []
        ids = [record["messageId"] for record in records]
        try:
            answer = dispatcher.lambda_handler({"Records": list(records)}, self.context)
        except Killed:
            return ids
        kept = [each["itemIdentifier"] for each in answer["batchItemFailures"]]
        for record in records:
            if record["messageId"] not in kept:
                self.stack.sqs.delete_message(
                    QueueUrl=self.stack.jobs_url, ReceiptHandle=record["receiptHandle"]
                )
        return kept

    def deliver(self, after_s: float = 0) -> int:
        """Receive and dispatch until no message is visible; return the number of messages."""
        self.stack.aws.clock.advance(after_s)
        count = 0
        while records := self.receive():
            self.dispatch(records)
            count += len(records)
        return count

    def submit(self, job_id: str = JOB, **changes: Any) -> str:
        """Send a request, and dispatch what waits; return the id of its message."""
        sent = self.send(job_id, **changes)
        self.deliver()
        return sent

    def begin(self, job_id: str = JOB, **changes: Any) -> Lease:
        """Submit a job that is claimed at once; return its row."""
        self.submit(job_id, **changes)
        return self.row(job_id)

    def running(self, job_id: str = JOB, **changes: Any) -> Lease:
        """A job that has begun, and whose task has registered and reported."""
        self.start_work(self.begin(job_id, **changes))
        return self.row(job_id)

    def committed(self, job_id: str = JOB, **changes: Any) -> Lease:
        """A job that has committed, and was killed before it could publish."""
        row = self.running(job_id, **changes)
        self.commit(row, row.places[""])
        return self.row(job_id)

    def owing_its_publish(self, job_id: str = JOB) -> Lease:
        """A job that succeeded, and whose settle died before it published."""
        row = self.committed(job_id)
        with Kill(self.stack.aws.gate, 2, after=True):
            self.settle(row, "killed")
        return self.row(job_id)

    def fill_slots(self) -> None:
        """Jobs that run in all slots of the stage."""
        for n in range(self.stage.slots):
            self.send(f"busy-{n}")
        self.deliver()
        self.deliver()

    def start_work(self, row: Lease) -> None:
        """The runner's first write, which registers its task, and its first report."""
        leases, now = self.stack.parts.leases, self.stack.aws.clock.now
        leases.report(
            transitions.register_task(
                row.id, f"arn:aws:ecs:us-east-1:123456789012:task/Longhaul/{row.id.token}", now()
            )
        )
        self.report(row)

    def report(self, row: Lease, hung_for: timedelta = timedelta()) -> Lease:
        """The runner reports that its work has not advanced for so long."""
        now = self.stack.aws.clock.now()
        progress = {"phase": "running", "fraction": 0.5}
        return self.stack.parts.leases.report(
            transitions.report_progress(row.id, progress, now - hung_for, now)
        )

    def upload(
        self, row: Lease, output: str | None = None, beside: Mapping[str, str] | None = None
    ) -> CommittedOutput:
        """Upload with the product's own uploader, and do not commit.

        `output` is the job's own prefix, unless it is given; `beside`, the further ones by name.
        """
        read = InputRead(name="flights", path=f"s3://{BUCKET}/raw/", digest="ab12")
        s3 = self.stack.aws.client("s3")
        uploader = Uploader(s3, BUCKET, Moving(Stop()))
        prefix = output or f"s3://{BUCKET}/out/{row.job_id}/"
        written = [Dataset(".", self.output, 1)]
        plans = {name: plan_of(s3, row.id, path, written) for name, path in (beside or {}).items()}
        return uploader.send(
            plan_of(s3, row.id, prefix, written),
            plans,
            origin=origin(row.id, self.stack.aws.clock.now(), [read]),
        )

    def commit(
        self, row: Lease, output: str | None = None, beside: Mapping[str, str] | None = None
    ) -> CommittedOutput:
        committed = self.upload(row, output, beside)
        self.stack.parts.leases.report(transitions.commit(row.id, committed))
        return committed

    def complete(self, row: Lease) -> None:
        """Everything that the runner of a successful job does."""
        self.start_work(row)
        self.complete_work(row)

    def succeed(self, row: Lease) -> None:
        """Complete the job, and settle it."""
        self.complete(row)
        assert self.settle(row) == "SUCCEEDED"

    def complete_work(self, row: Lease) -> None:
        """The same after the first report: upload, commit, publish."""
        self.commit(row)
        self.stack.parts.publisher.publish(row.id)
        self.stack.parts.leases.report(
            transitions.mark_published(row.id, self.stack.aws.clock.now())
        )

    def beat(self, row: Lease) -> dict[str, Any]:
        return dict(heartbeat.lambda_handler(json.loads(row.execution_input), self.context))

    def run_for(self, row: Lease, seconds: float) -> None:
        """The job reports, its execution beats, and the mapping delivers visible messages."""
        clock = self.stack.aws.clock
        end = clock.now() + timedelta(seconds=seconds)
        while clock.now() < end:
            self.report(row)
            answer = self.beat(row)
            assert answer["next"] == "wait", answer
            self.deliver()
            clock.advance(answer["wait_s"])

    def settle(self, row: Lease, case: str = "exit-0") -> str:
        """Settle the attempt with an end from `events/settle/`, then close its execution."""
        end = {
            name: value
            for name, value in event("settle", case).items()
            if name in ("task", "error")
        }
        outcome = str(
            settle.lambda_handler({**json.loads(row.execution_input), **end}, self.context)[
                "outcome"
            ]
        )
        self.close(
            row, "SUCCEEDED" if outcome in ("SUCCEEDED", "CANCELLED", "SUPERSEDED") else "FAILED"
        )
        return outcome

    def close(self, row: Lease, status: str) -> None:
        execution = self.stack.sfn.executions.get(
            self.stack.parts.executions.arn(row.id.execution_name)
        )
        if execution is not None:
            self.stack.sfn.close(execution, status)

    def cancel(self, job_id: str = JOB) -> Lease:
        parts = self.stack.parts
        return Canceller(parts.leases, parts.finisher).cancel("main", job_id)

    def sweep(self, after_s: float = 0) -> dict[str, int]:
        """Sweep once; return the counts that are not zero."""
        self.stack.aws.clock.advance(after_s)
        report = sweeper.lambda_handler(event("sweeper", "schedule"), self.context)
        return {what: count for what, count in report.items() if count}

    def row(self, job_id: str = JOB) -> Lease:
        return self.stack.row(job_id)

    def rows(self) -> list[Lease]:
        """The rows of all jobs."""
        keys = {item["key"]["S"] for item in self.items() if item["item"]["S"] == "lease"}
        return list(self.stack.parts.leases.load_many(sorted(keys)).values())

    def items(self) -> list[dict[str, Any]]:
        """All items of the table, read without a call to AWS."""
        rows = self.stack.aws.dynamodb.tables[self.stack.settings.leases_table].rows.values()
        return [row.item for row in rows if row.item is not None]

    def slots_taken(self) -> int:
        return sum(int(item["running"]["N"]) for item in self.items() if "running" in item)

    def pending_uploads(self) -> list[str]:
        return sorted(upload.key for upload in self.stack.aws.s3.buckets[BUCKET].uploads.values())

    def pending_lists(self) -> list[str]:
        return sorted(
            key
            for key in self.stack.aws.s3.buckets[BUCKET].objects
            if key.startswith("longhaul/pending/")
        )

    def published(self, job_id: str = JOB) -> bool:
        return f"out/{job_id}/_SUCCESS" in self.stack.aws.s3.buckets[BUCKET].objects


def until(condition: Callable[[], bool], step: Callable[[], Any], most: int) -> None:
    """Repeat the step until the condition holds. The limit is in steps: time is virtual."""
    for _ in range(most):
        if condition():
            return
        step()
    assert condition(), f"not within {most} steps"


def record_of(message: dict[str, Any], queue: str = "Longhaul-main-jobs") -> dict[str, Any]:
    """A received message as the mapping passes it on."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
        "awsRegion": "us-east-1",
    }
