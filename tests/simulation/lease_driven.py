"""The same work through Longhaul's own handlers, in virtual time: every decision that could start or stop anything is the real one.

The dispatcher, the heartbeat, settle and the sweeper run as they are deployed, against the strict fakes; the mapping's poll, the state machine's waits and the
job's runner are played here. Whatever would stop a task is noted: StopTask, StopExecution, and a beat that answers with a kill. No metric comes into it,
because nothing here could read one; `tests/infra/test_scaling.py` shows that in the template.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from functions import dispatcher, heartbeat, settle, sweeper
from longhaul.adapters.ecs_tasks import EcsTasks
from longhaul.domain.lease import AttemptId, CommittedOutput, ExecutionInput
from longhaul.domain.pending import pending_ref
from longhaul.ports import RunningTask
from tests.builders import BUCKET, body
from tests.events import event
from tests.fakes.clock import VirtualClock
from tests.fakes.stepfunctions import Execution
from tests.handlers.conftest import Context, deployed
from tests.simulation.timeline import Timeline
from tests.simulation.work import Job, Outcome

MAX_WORKERS = 10  # slots: as many as the other design has workers
START_S = 60
PROGRESS_S = 300
POLL_S = 20
SWEEP_S = 300
_HORIZON = timedelta(days=60)


class LeaseDriven:
    """Also `tests.fakes.stepfunctions.Engine`: it hears of the executions that the dispatcher starts."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._timeline = Timeline(VirtualClock())
        self._jobs = {f"job-{job.n}": job for job in jobs}
        self._unsent = len(jobs)
        self._running: dict[str, AttemptId] = {}  # by task ARN
        self.outcome = Outcome()

    def run(self) -> Outcome:
        with pytest.MonkeyPatch.context() as patch, deployed(clock=self._timeline.clock, slots=MAX_WORKERS) as stack:
            self._stack, self._aws = stack, stack.aws
            self.calls = stack.aws.gate.counts  # by service and operation
            patch.setattr(EcsTasks, "running", lambda _: self._tasks())
            self._aws.stepfunctions.engine = self
            self._play()
        return self.outcome

    def _play(self) -> None:
        for name, job in self._jobs.items():
            self._timeline.after(job.sent_at_s, lambda name=name: self._send(name))  # type: ignore[misc]
        self._timeline.after(1, self._poll)
        self._timeline.after(SWEEP_S, self._sweep)
        until = self._aws.clock.now() + _HORIZON
        while self._timeline.step(until) and not self._is_over:
            pass
        self.outcome.dead_letters = len(self._aws.sqs.queues[self._stack.dead_letters_url].messages)

    @property
    def _is_over(self) -> bool:
        return not self._unsent and not self._aws.sqs.queues[self._stack.jobs_url].messages

    def _send(self, name: str) -> None:
        self._unsent -= 1
        text = body(job_id=name, output=f"s3://{BUCKET}/{name}/")
        self._aws.sqs.send_message(QueueUrl=self._stack.jobs_url, MessageBody=text)

    def _poll(self) -> None:
        """The event source mapping: one message in a batch, so that the same seed goes the same way."""
        template = event("dispatcher", "new-job")["Records"][0]
        while messages := self._aws.sqs.receive_message(
            QueueUrl=self._stack.jobs_url, MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"]
        ).get("Messages"):
            (message,) = messages
            record = template | {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
            }
            answer = dispatcher.lambda_handler({"Records": [record]}, _context())
            if not answer["batchItemFailures"]:
                self._aws.sqs.delete_message(QueueUrl=self._stack.jobs_url, ReceiptHandle=message["ReceiptHandle"])
        self._timeline.after(POLL_S, self._poll)

    def _sweep(self) -> None:
        sweeper.lambda_handler(event("sweeper", "schedule"), _context())
        self._timeline.after(SWEEP_S, self._sweep)

    def started(self, execution: Execution) -> None:
        attempt = ExecutionInput.model_validate_json(execution.input)
        arn = f"arn:aws:ecs:us-east-1:123456789012:task/Longhaul/{len(self._aws.stepfunctions.executions):032x}"
        length_s = self._jobs[attempt.job_id].length_s
        self._running[arn] = attempt.id
        self._timeline.after(attempt.first_wait_s, lambda: self._beat(execution, arn))
        self._timeline.after(START_S, lambda: self._register(attempt.id, arn))
        self._timeline.after(START_S + length_s, lambda: self._end(execution, arn, length_s))

    def stopped(self, execution: Execution) -> None:
        """StopExecution, which would stop the task: counted with the calls."""

    def _register(self, attempt: AttemptId, arn: str) -> None:
        self._stack.parts.leases.register_task(attempt, arn, self._aws.clock.now())
        self._report(attempt, arn)

    def _report(self, attempt: AttemptId, arn: str) -> None:
        if arn in self._running:
            self._stack.parts.leases.report_progress(attempt, {"stage": 1}, self._aws.clock.now())
            self._timeline.after(PROGRESS_S, lambda: self._report(attempt, arn))

    def _beat(self, execution: Execution, arn: str) -> None:
        answer = heartbeat.lambda_handler(json.loads(execution.input), _context())
        if answer["next"] == "wait":
            self._timeline.after(answer["wait_s"], lambda: self._beat(execution, arn))
        elif answer["next"] != "end":
            del self._running[arn]
            self.outcome.stopped += 1

    def _end(self, execution: Execution, arn: str, length_s: float) -> None:
        """The job's output is committed, and the state machine tells settle."""
        attempt = self._running.pop(arn)
        output = CommittedOutput(attempt.attempt, pending_ref(attempt), f"s3://{BUCKET}/{attempt.key}/", 0, 0)
        self._stack.parts.leases.commit(attempt, output)
        self._stack.parts.leases.mark_published(attempt, self._aws.clock.now())
        settle.lambda_handler(json.loads(execution.input) | {"task": {}}, _context())
        self._aws.stepfunctions.close(execution, "SUCCEEDED")
        self.outcome.done += 1
        self.outcome.useful_s += length_s
        self.outcome.paid_s += START_S + length_s

    def _tasks(self) -> Iterator[RunningTask]:
        return iter([RunningTask(arn, attempt) for arn, attempt in self._running.items()])


def _context() -> Any:
    return Context()
