"""A function dies at any of its calls, before or after the call takes effect.

Another function, or the next try, finishes its work.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.lease import Lease, Owed, State
from longhaul.core.ports import Visibility
from longhaul.core.queue import SqsQueue
from tests.handlers.life import Kill, Life
from tests.handlers.stack import deployed, forget_runtimes


def at_every_call(
    output: Path, prepare: Callable[[Life], Any], act: Callable[[Life, Any], Any]
) -> Iterator[Life]:
    """Kill `act` at each of its calls, each time in a new world.

    Yields the world as the killed process leaves it.
    """
    for after in (False, True):
        for call in itertools.count(1):
            with deployed() as stack:
                life = Life(stack, output)
                prepared = prepare(life)
                with Kill(stack.aws.gate, call, after=after) as kill:
                    act(life, prepared)
                if not kill.happened:
                    assert call > 3, "only a few calls were made: is this the intended scenario?"
                    break
                forget_runtimes()
                yield life


def ten_messages(life: Life) -> list[dict[str, Any]]:
    for n in range(10):
        life.send(f"job-{n}")
    return life.receive()


def test_dispatcher_that_dies_in_a_batch_neither_doubles_nor_loses_an_execution(
    output: Path,
) -> None:
    worlds = 0
    for life in at_every_call(output, ten_messages, Life.dispatch):
        worlds += 1
        life.stack.aws.clock.advance(120)  # the queue's visibility timeout
        assert life.deliver() == 10
        rows = life.rows()
        assert [(row.state, row.attempt.number, row.receive.receive_count) for row in rows] == [
            (State.RUNNING, 1, 2)
        ] * 10
        assert sorted(life.stack.executions()) == sorted(row.execution_input for row in rows)
        assert life.slots_taken() == 10
    assert worlds >= 60


def hung(life: Life) -> Lease:
    return life.report(life.running(), hung_for=timedelta(minutes=15))


def cancel_marked(life: Life) -> Lease:
    row = life.running()
    life.stack.parts.leases.request_cancel(row.key, row.stage)
    return row


ENDS: dict[str, tuple[Callable[[Life], Lease], str, State]] = {
    "succeeds": (Life.committed, "exit-0", State.SUCCEEDED),
    "is killed after its commit": (Life.committed, "killed", State.SUCCEEDED),
    "fails": (Life.running, "exit-1", State.RELEASED),
    "stalls": (hung, "stalled", State.RELEASED),
    "fails for the last time": (lambda life: life.running(max_attempts=1), "exit-1", State.DEAD),
    "cannot succeed": (Life.running, "exit-65-permanent", State.DEAD),
    "is cancelled": (cancel_marked, "cancelled", State.CANCELLED),
}


def tried_again(life: Life, row: Lease, case: str) -> None:
    """The state machine calls settle again."""
    life.settle(row, case)


def redelivered(life: Life, row: Lease, _case: str) -> None:
    """The execution fails, and its event is lost. The message becomes visible again."""
    life.close(row, "FAILED")
    life.deliver(after_s=120)


def swept(life: Life, row: Lease, _case: str) -> None:
    """Only the scheduled sweep runs."""
    life.close(row, "FAILED")
    life.sweep(after_s=600)


@pytest.mark.parametrize("by", [tried_again, redelivered, swept])
@pytest.mark.parametrize("end", ENDS)
def test_settle_that_dies_at_any_call_is_finished_later(
    output: Path, end: str, by: Callable[[Life, Lease, str], None]
) -> None:
    prepare, case, expected = ENDS[end]
    for life in at_every_call(output, prepare, lambda life, row: life.settle(row, case)):
        was_written = life.row().state is not State.RUNNING
        by(life, life.row(), case)
        row, left = life.row(), len(life.stack.sqs.queues[life.stack.jobs_url].messages)
        assert life.slots_taken() == (row.state is State.RUNNING)
        if not was_written and by is not tried_again and expected is not State.SUCCEEDED:
            # How the task ended is unknown: an interruption, unless the row has a cancel mark.
            expected_now = State.CANCELLED if expected is State.CANCELLED else State.RELEASED
            assert (row.state, row.failures) == (expected_now, 0)
        elif expected is State.RELEASED:
            # Running: the next attempt.
            assert (row.state, row.failures) in [(State.RELEASED, 1), (State.RUNNING, 1)]
        else:
            assert row.state is expected
        if row.state.is_terminal:
            # A message that was deleted before the crash is not delivered again. The next sweep
            # finds that its delete is done.
            assert left == 0
            assert row.owed == () or (row.owed == (Owed.DELETE,) and by is redelivered)
        else:
            assert left == 1
        assert life.published() == (row.state is State.SUCCEEDED)
        assert bool(life.stack.dead_letters()) == (row.state is State.DEAD)
        life.sweep(after_s=200)
        assert row.state is not State.RELEASED or life.row().state is State.RELEASED
        assert life.row().is_finished == row.state.is_terminal


def test_beat_that_dies_at_any_call_does_no_harm(output: Path) -> None:
    for life in at_every_call(output, Life.running, Life.beat):
        row = life.row()
        assert row.state is State.RUNNING
        life.stack.aws.clock.advance(15)
        life.report(row)
        assert life.beat(row)["next"] == "wait"
        life.complete_work(row)
        assert life.settle(row) == "SUCCEEDED"
        assert life.stack.messages() == (0, 0)


def test_sweep_that_dies_at_any_call_is_completed_by_the_next(output: Path) -> None:
    def left_behind(life: Life) -> None:
        """One job's execution died, one was never started, and one job owes its dead letter."""
        for job_id in ("died", "unstarted", "owing"):
            life.send(job_id, max_attempts=1)
        life.deliver()
        life.close(life.row("died"), "ABORTED")
        del life.stack.sfn.executions[
            life.stack.parts.executions.arn(life.row("unstarted").id.execution_name)
        ]
        owing = life.row("owing")
        with Kill(life.stack.aws.gate, 3, after=False):
            life.settle(owing, "exit-1")
        assert life.row("owing").owed == (Owed.DEAD_LETTER, Owed.DELETE)
        life.stack.aws.clock.advance(600)

    for life in at_every_call(output, left_behind, lambda life, _: life.sweep()):
        life.sweep()
        assert life.row("died").interruptions == 1
        assert life.row("unstarted").execution_input in life.stack.executions()
        assert life.row("owing").is_finished
        assert life.stack.dead_letters()


# A function stops its long work before Lambda ends it, and another invocation goes on.


LIMIT_S = 60
"""Of a hanging call: the tests end it as soon as they have seen what they look for."""


@pytest.mark.parametrize("remaining_ms", [10_000, 9_000, 0])
def test_settle_without_time_writes_the_outcome_and_leaves_the_publication_to_a_sweep(
    life: Life, remaining_ms: int
) -> None:
    row = life.committed()
    life.context.remaining_ms = remaining_ms
    assert life.settle(row, "killed") == "SUCCEEDED"
    assert (life.row().state, life.row().owed) == (
        State.SUCCEEDED,
        (Owed.PUBLISH, Owed.DELETE),
    )
    life.context.remaining_ms = 300_000
    assert life.sweep()["finished"] == 1
    assert life.published()


def hanging(monkeypatch: pytest.MonkeyPatch, ends: threading.Event) -> None:
    """SQS answers no request for a visibility timeout. Not in the gate, which has a lock."""
    original = SqsQueue.set_visibility

    def hang(self: SqsQueue, queue_url: str, receipt_handle: str, seconds: int) -> Visibility:
        ends.wait(LIMIT_S)
        return original(self, queue_url, receipt_handle, seconds)

    monkeypatch.setattr(SqsQueue, "set_visibility", hang)


def test_batch_answers_in_time_while_a_call_hangs_and_repeats_no_dead_letter(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a function that Lambda ends: its answer would be lost, and the letter sent again."""
    life.submit()
    life.stack.aws.clock.advance(120)  # its message comes again, and is adopted
    invalid = life.stack.sqs.send_message(QueueUrl=life.stack.jobs_url, MessageBody="not JSON")
    records = life.receive()
    assert len(records) == 2
    ends = threading.Event()
    with monkeypatch.context() as trouble:
        hanging(trouble, ends)
        life.context.remaining_ms = 10_500
        life.dispatch(records)
        life.stack.aws.clock.advance(1)
        ends.set()
    life.context.remaining_ms = 75_000
    for _ in range(3):
        life.deliver(after_s=120)
    assert life.row(invalid["MessageId"]).is_finished
    assert len(life.stack.dead_letters()) == 1
