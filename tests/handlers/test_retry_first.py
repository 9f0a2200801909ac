"""A retry gets the next free slot, although its message is far behind in the queue."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from longhaul.core import transitions
from longhaul.core.lease import CommittedOutput, ExecutionInput, State
from simulation.aws.clock import START, VirtualClock
from simulation.aws.stepfunctions.client import Execution
from tests.builders import BUCKET
from tests.handlers.life import Life
from tests.handlers.stack import deployed


@pytest.fixture
def life(output: Path) -> Iterator[Life]:
    with deployed(slots=1) as stack:
        yield Life(stack, output)


def released(life: Life, job_id: str) -> None:
    """A job that failed once. SQS does not give out its message, because others wait before it."""
    life.submit(job_id)
    assert life.settle(life.row(job_id), "exit-1") == "RELEASED"
    hide_for(life, hours=10)


def hide_for(life: Life, *, hours: int) -> None:
    for message in life.stack.sqs.queues[life.stack.jobs_url].messages.values():
        at = life.stack.aws.clock.now() + timedelta(hours=hours)
        life.stack.sqs.queues[life.stack.jobs_url].show(message, at.timestamp())


def test_retry_takes_the_slot_before_a_new_job_does(life: Life) -> None:
    released(life, "failed-once")
    life.stack.aws.clock.advance(3_600)
    life.submit("new")

    row = life.row("failed-once")
    assert (row.state, row.attempt.number) == (State.RUNNING, 2)
    assert row.receive.receipt_handle is None, "its message is adopted when it comes"
    assert [each.key for each in life.rows()] == ["main#failed-once"]

    # The message comes, and is the running job's own.
    life.stack.aws.clock.advance(9 * 3_600)
    life.report(row)
    life.deliver()
    assert life.row("failed-once").receive.receipt_handle is not None
    assert life.row("failed-once").attempt.number == 2


def test_retry_that_ends_before_its_message_comes_lets_that_message_go(life: Life) -> None:
    released(life, "failed-once")
    life.stack.aws.clock.advance(3_600)
    life.submit("new")
    life.succeed(life.row("failed-once"))
    assert life.row("failed-once").state is State.SUCCEEDED

    life.deliver(after_s=10 * 3_600)
    assert life.row("new").state is State.RUNNING
    (left,) = life.stack.sqs.queues[life.stack.jobs_url].messages.values()
    assert left.id == life.row("new").receive.message_id


# A job that is to begin later: its row waits, its message is hidden, and nothing runs.


IN_THREE_DAYS = timedelta(days=3)


# Some hundred messages for four slots: waiting runs nothing, and a free slot is soon taken.


JOBS = 120
SLOTS = 4
JOB_S = 30


@dataclass
class Burst:
    """Jobs of half a minute."""

    life: Life
    ends: list[tuple[datetime, str]] = field(default_factory=list)
    most_running: int = 0
    polls: int = 0

    def started(self, execution: Execution) -> None:
        ends_at = self.now() + timedelta(seconds=JOB_S)
        heapq.heappush(
            self.ends, (ends_at, ExecutionInput.model_validate_json(execution.input).job_id)
        )
        self.most_running = max(self.most_running, len(self.ends))

    def stopped(self, execution: Execution) -> None:
        raise AssertionError(f"{execution.name} was stopped")

    def now(self) -> datetime:
        return self.life.stack.aws.clock.now()

    def step(self) -> None:
        """End a job, or dispatch the next messages, whichever comes first."""
        clock = self.life.stack.aws.clock
        (queue,) = [q for q in self.life.stack.aws.sqs.queues.values() if q.name.endswith("-jobs")]
        shows_at = queue.shows_next_at()
        shows = datetime.fromtimestamp(shows_at, START.tzinfo) if shows_at is not None else None
        if self.ends and (shows is None or self.ends[0][0] <= shows):
            at, job_id = heapq.heappop(self.ends)
            clock.advance_to(max(at, self.now()))
            self._succeed(job_id)
            return
        assert shows is not None
        clock.advance_to(max(shows, self.now()))
        self.polls += 1
        before = self.now()
        self.life.dispatch(self.life.receive())
        assert self.now() - before < timedelta(seconds=1)  # it waits for nothing

    def _succeed(self, job_id: str) -> None:
        row, leases = self.life.row(job_id), self.life.stack.parts.leases
        output = CommittedOutput(row.attempt.number, 0, 0, prefix=f"s3://{BUCKET}/out/{job_id}/")
        leases.report(transitions.commit(row.id, output))
        leases.report(transitions.mark_published(row.id, self.now()))
        assert self.life.settle(row) == "SUCCEEDED"


def test_burst_keeps_to_the_slots_costs_no_attempt_and_runs_nothing_while_it_waits(
    output: Path,
) -> None:
    clock = VirtualClock()
    with deployed(clock=clock, slots=SLOTS) as stack:
        burst = Burst(Life(stack, output))
        stack.sfn.engine = burst
        for n in range(JOBS):
            burst.life.send(f"job-{n}")

        while sum(stack.messages()):
            burst.step()

        rows = burst.life.rows()
        assert len(rows) == JOBS
        assert {
            (row.state, row.attempt.number, row.failures, row.interruptions) for row in rows
        } == {(State.SUCCEEDED, 1, 0, 0)}
        assert all(row.is_finished for row in rows)
        assert len(stack.sfn.executions) == JOBS
        assert (stack.dead_letters(), burst.life.slots_taken()) == ([], 0)
        assert burst.most_running == SLOTS
        # The slots are almost always taken.
        assert (clock.now() - START).total_seconds() < 1.03 * JOBS / SLOTS * JOB_S
        # Each message is looked at about twenty times, and often several come together.
        assert burst.polls < 10 * JOBS
