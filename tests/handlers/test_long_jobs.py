"""Jobs that run or wait longer than SQS allows for one message.

The limits are 12 hours of invisibility, 1,000 receives and 10 days of retention.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.dispatcher import lambda_handler as dispatcher
from longhaul.core import transitions
from longhaul.core.lease import Lease, Owed, State
from simulation.aws.errors import unavailable
from simulation.aws.service import Answer, Call, Proceed
from tests.events import event
from tests.faults import failing
from tests.handlers.life import Kill, Life
from tests.handlers.stack import Context, Stack, deployed

HOUR, DAY = 3600, 86_400


@pytest.fixture
def life(output: Path) -> Iterator[Life]:
    with deployed() as stack:
        yield Life(stack, output)


def running(life: Life) -> Lease:
    life.deliver()
    life.start_work(life.row())
    return life.row()


def pass_time(life: Life, seconds: float) -> None:
    life.stack.aws.clock.advance(seconds)


def messages(life: Life) -> int:
    return sum(life.stack.messages())


@pytest.fixture
def refusals(life: Life, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The errors of SQS, as they come."""
    seen: list[str] = []

    def watch(call: Call, proceed: Proceed) -> Answer:
        try:
            return proceed()
        except ClientError as error:
            if call.service == "sqs":
                seen.append(str(error))
            raise

    monkeypatch.setattr(life.stack.aws.gate, "around", watch)
    return seen


def test_job_of_several_days_keeps_one_attempt_one_task_and_one_row(
    life: Life, refusals: list[str]
) -> None:
    life.send()
    before = running(life)
    life.run_for(before, 3 * DAY)
    row = life.row()
    assert (row.id, row.attempt.task_arn, row.execution_input) == (
        before.id,
        before.attempt.task_arn,
        before.execution_input,
    )
    hand_overs = 3 * 24 * 60 // 690  # one every 11 h 30 min
    assert (row.failures, row.interruptions) == (0, 0)
    assert row.receive.receive_count == 1 + hand_overs
    assert row.attempt.beats < 900
    assert (len(life.rows()), len(life.stack.executions()), messages(life)) == (1, 1, 1)
    assert refusals == []
    life.complete_work(row)
    assert life.settle(row) == "SUCCEEDED"
    assert messages(life) == 0


def test_message_of_a_seven_day_job_that_waited_three_days_is_renewed_while_it_runs(
    life: Life,
) -> None:
    first = life.send()
    sent = life.stack.aws.clock.now()
    pass_time(life, 3 * DAY)
    before = running(life)
    life.run_for(before, 7 * DAY - HOUR)
    row = life.row()
    assert (row.id, row.attempt.task_arn, row.receive.first_sent_at) == (
        before.id,
        before.attempt.task_arn,
        sent,
    )
    assert row.receive.renews == first
    assert (len(life.stack.executions()), messages(life)) == (1, 1)
    assert row.attempt.beats * 9 < 25_000  # events in the execution's history
    life.complete_work(row)
    assert life.settle(row) == "SUCCEEDED"
    assert messages(life) == 0


@pytest.mark.parametrize(
    "is_retry",
    [
        pytest.param(False, id="first attempt"),
        pytest.param(True, id="retry", marks=pytest.mark.slow),
    ],
)
def test_job_that_waits_weeks_for_a_slot_is_neither_lost_nor_doubled(
    output: Path, *, is_retry: bool
) -> None:
    with deployed(slots=1, lease={"renew_receives": 100}) as stack:
        life = Life(stack, output)
        sent = stack.aws.clock.now()
        if is_retry:
            life.send()
            life.settle(running(life), "exit-1")
        life.submit("other")
        if not is_retry:
            life.send()
        assert life.row("other").state is State.RUNNING
        for _ in range(20 * 24):
            life.deliver(after_s=HOUR)
            assert set(life.sweep()) <= {"looked_at"}
            assert messages(life) == 2  # the other job's message is received, and not deleted
        life.settle(life.row("other"), "exit-65-permanent")
        life.deliver(after_s=HOUR)
        row = life.row()
        assert (row.state, row.attempt.number, row.failures, row.interruptions) == (
            State.RUNNING,
            1 + is_retry,
            is_retry,
            0,
        )
        assert row.receive.first_sent_at == sent
        life.succeed(row)
        assert messages(life) == 0
        assert [why["key"] for _, why in stack.dead_letters()] == ["main#other"]


def taken_by_retention(life: Life) -> None:
    """Wait until the queue has deleted the message, which was never received again."""
    pass_time(life, 10 * DAY)
    assert messages(life) == 0


def purged(life: Life) -> Lease:
    """A running job whose message people have deleted."""
    life.send()
    row = running(life)
    life.stack.sqs.purge_queue(QueueUrl=life.stack.jobs_url)
    return row


@pytest.mark.parametrize("hold", [True, False], ids=["held", "handed over"])
def test_job_is_retried_although_its_message_is_gone(life: Life, *, hold: bool) -> None:
    row = purged(life)
    if hold:
        life.run_for(row, 2 * HOUR)
    else:
        life.stack.parts.leases.report(
            transitions.hand_over(row.id, str(row.receive.receipt_handle))
        )
        pass_time(life, 2 * HOUR)
    assert life.settle(row, "exit-1") == "RELEASED"
    assert (messages(life), life.sweep()) == (0, {"looked_at": 1})
    assert life.sweep(after_s=6.5 * HOUR)["renewed"] == 1
    life.deliver()
    second = life.row()
    assert (second.state, second.attempt.number, second.failures) == (State.RUNNING, 2, 1)
    life.succeed(second)
    assert (messages(life), life.stack.dead_letters()) == (0, [])


def test_copy_that_retention_takes_is_followed_by_another(life: Life) -> None:
    life.send()
    life.settle(running(life), "exit-1")
    for _ in range(3):
        taken_by_retention(life)
        assert life.sweep()["renewed"] == 1
    life.deliver()
    life.succeed(life.row())
    assert messages(life) == 0


ENDS = {"exit-0": State.SUCCEEDED, "exit-65-permanent": State.DEAD, "cancelled": State.CANCELLED}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "owing", [(Owed.DELETE,), ()], ids=["its settle died before the delete", "handed over"]
)
def test_ended_job_is_finished_although_retention_took_its_message(
    life: Life, end: str, owing: tuple[Owed, ...]
) -> None:
    state = ENDS[end]
    life.send()
    row = running(life)
    if state is State.SUCCEEDED:
        life.complete_work(row)
    if owing:
        die_at(life, "DeleteMessage", lambda: life.settle(row, end))
    else:
        life.stack.parts.leases.report(
            transitions.hand_over(row.id, str(row.receive.receipt_handle))
        )
        life.settle(row, end)
    assert (life.row().state, life.row().owed) == (state, owing)
    taken_by_retention(life)
    life.sweep()
    assert life.row().is_finished
    assert life.sweep() == {}
    assert len(life.stack.dead_letters()) == (state is State.DEAD)


def die_at(life: Life, operation: str, act: Callable[[], object]) -> None:
    """Kill the process at the first call of this operation."""
    kill = Kill(life.stack.aws.gate, 1, after=False)

    def watch(call: Call, proceed: Proceed) -> Answer:
        return (
            kill._call(call, proceed) if call.operation == operation or kill.happened else proceed()
        )

    with kill:
        life.stack.aws.gate.around = watch
        act()
    assert kill.happened


# A copy replaces a message before SQS drops the message.
#
# Neither the job nor the message is lost or doubled.


def worn_out(case: str) -> dict[str, Any]:
    batch = event("dispatcher", case)
    batch["Records"][0]["attributes"]["ApproximateReceiveCount"] = "900"
    return batch


def kept(batch: dict[str, Any], context: Context) -> list[str]:
    return [each["itemIdentifier"] for each in dispatcher(batch, context)["batchItemFailures"]]


def test_a_message_that_could_not_be_renewed_is_not_adopted_and_comes_back_soon(
    stack: Stack, context: Context
) -> None:
    """The beats of a job hide an adopted message for half a day, and it may be too old by then."""
    kept(event("dispatcher", "new-job"), context)
    before = stack.row()
    batch = worn_out("redelivery")
    with failing(stack.aws.gate, unavailable, "SendMessage"):
        assert kept(batch, context) == [batch["Records"][0]["messageId"]]
    assert stack.row() == before
