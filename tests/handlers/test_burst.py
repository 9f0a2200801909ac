"""A burst of a thousand messages for four slots: the backlog stays in the queue, and waiting uses up nothing."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from longhaul.domain.lease import CommittedOutput, ExecutionInput, State
from longhaul.domain.pending import pending_ref
from tests.builders import BUCKET
from tests.fakes.clock import START, VirtualClock
from tests.fakes.stepfunctions import Execution
from tests.handlers.conftest import deployed
from tests.handlers.life import Life

JOBS = 1_000
SLOTS = 4
DISPATCHERS = 2  # the mapping's MaximumConcurrency
JOB_S = 30


class SharedClock(VirtualClock):
    """While one sleeps the others work."""

    others: Callable[[datetime], None] = staticmethod(lambda _until: None)

    def sleep(self, seconds: float) -> None:
        until = self.now() + timedelta(seconds=seconds)
        self.others(until)
        self.advance_to(max(until, self.now()))


@dataclass
class Burst:
    """Two dispatchers, of which one polls while the other waits for a slot, and jobs of half a minute each."""

    life: Life
    ends: list[tuple[datetime, str]] = field(default_factory=list)
    held: list[int] = field(default_factory=list)  # messages in the hands of each dispatcher
    most_running: int = 0
    most_held: int = 0
    most_hidden: int = 0  # of the messages that nobody has claimed

    def started(self, execution: Execution) -> None:
        ends_at = self.life.stack.aws.clock.now() + timedelta(seconds=JOB_S)
        heapq.heappush(self.ends, (ends_at, ExecutionInput.model_validate_json(execution.input).job_id))
        self.most_running = max(self.most_running, len(self.ends))

    def stopped(self, execution: Execution) -> None:
        raise AssertionError(f"nobody stops {execution.name}")

    def poll(self) -> None:
        records = self.life.receive()
        self.held.append(len(records))
        self.most_held = max(self.most_held, sum(self.held))
        self.life.dispatch(records)
        self.held.pop()

    def work(self, until: datetime) -> None:
        """What happens until then: jobs end, and the other dispatcher polls."""
        while self.ends and self.ends[0][0] <= until:
            at, job_id = heapq.heappop(self.ends)
            self.life.stack.aws.clock.advance_to(max(at, self.life.stack.aws.clock.now()))
            self._succeed(job_id)
        if len(self.held) < DISPATCHERS:
            self.poll()

    def look(self) -> None:
        visible, _ = self.life.stack.messages()
        self.most_hidden = max(self.most_hidden, JOBS - len(self.life.stack.sfn.executions) - visible)

    def _succeed(self, job_id: str) -> None:
        row, leases = self.life.row(job_id), self.life.stack.parts.leases
        output = CommittedOutput(row.attempt, pending_ref(row.id), f"s3://{BUCKET}/out/{job_id}/", 0, 0)
        leases.commit(row.id, output)
        leases.mark_published(row.id, self.life.stack.aws.clock.now())
        assert self.life.settle(row) == "SUCCEEDED"


def test_a_burst_never_runs_more_than_the_slots_burns_no_attempt_and_leaves_the_backlog_visible(output: Path) -> None:
    clock = SharedClock()
    with deployed(clock=clock, slots=SLOTS, lease={"slot_wait_s": 50}) as stack:
        burst = Burst(Life(stack, output))
        stack.sfn.engine = burst
        clock.others = burst.work
        for n in range(JOBS):
            burst.life.send(f"job-{n}")

        while sum(stack.messages()):
            burst.poll()
            burst.look()
            clock.sleep(1)

        rows = burst.life.rows()
        assert len(rows) == JOBS
        assert {(row.state, row.attempt, row.failures, row.interruptions) for row in rows} == {
            (State.SUCCEEDED, 1, 0, 0)
        }
        assert all(row.is_finished for row in rows)
        assert len(stack.sfn.executions) == JOBS
        assert (stack.dead_letters(), burst.life.slots_taken()) == ([], 0)
        assert burst.most_running == SLOTS
        assert burst.most_held == 20
        # Held, or put back for at most five minutes, twenty of them every 50 s; all others can be seen, and counted, in the queue.
        assert burst.most_hidden <= 20 + 20 * 300 // 50
        # The slots stood empty for hardly a moment.
        assert (clock.now() - START).total_seconds() < 1.1 * JOBS / SLOTS * JOB_S
