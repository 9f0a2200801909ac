"""What SQS does to a message while its job runs: twice, late, in the wrong order, by old handles, after a deploy. One attempt runs, and in the end the message is gone."""

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from longhaul.domain.lease import Lease, State
from tests.fakes.service import Answer, Call, Proceed
from tests.fakes.sqs_receipts import Policy, Stale
from tests.handlers.conftest import Stack
from tests.handlers.life import Life, until

JOB = "january"


@pytest.fixture
def life(stack: Stack, output: Path) -> Life:
    return Life(stack, output)


def running(life: Life, **request: object) -> Lease:
    life.send(JOB, **request)
    life.deliver()
    life.start_work(life.row(JOB))
    return life.row(JOB)


def starts(life: Life) -> int:
    return life.stack.aws.gate.counts["stepfunctions.StartExecution"]


def ends_well(life: Life) -> None:
    """The one attempt completes, and nothing is left."""
    row = life.row(JOB)
    life.complete_work(row)
    assert life.settle(row) == "SUCCEEDED"
    assert (row.attempt, len(life.stack.executions())) == (1, 1)
    nothing_is_left(life)


def nothing_is_left(life: Life) -> None:
    def gone() -> bool:
        return life.stack.messages() == (0, 0) and all(row.is_finished for row in life.rows())

    def pass_time() -> None:
        life.stack.aws.clock.advance(600)
        life.deliver()
        life.sweep()

    until(gone, pass_time, most=80)  # of ten minutes: more than the 12 h for which a message can be invisible
    assert life.slots_taken() == 0
    assert life.stack.dead_letters() == []


def test_a_message_delivered_twice_inside_its_visibility_starts_one_execution(life: Life) -> None:
    row = running(life)
    life.stack.sqs.redeliver(life.stack.jobs_url, row.message_id)
    assert life.deliver() == 1
    assert life.row(JOB).receive_count == 2
    ends_well(life)


def test_one_batch_handed_over_twice_starts_one_execution(life: Life) -> None:
    life.send(JOB)
    records = life.receive()
    life.dispatch(records)
    kept = life.dispatch(records)
    assert kept == [life.row(JOB).message_id]
    life.start_work(life.row(JOB))
    ends_well(life)


def test_a_message_that_lapses_while_its_job_runs_is_adopted(life: Life) -> None:
    row = running(life)
    for receives in range(2, 6):
        life.stack.aws.clock.advance(600)  # not one beat came through
        life.deliver()
        adopted = life.row(JOB)
        assert (adopted.attempt, adopted.receive_count) == (1, receives)
        assert adopted.receipt_handle != row.receipt_handle
    ends_well(life)


def test_of_two_adoptions_that_land_in_reverse_order_the_later_receive_stays(life: Life) -> None:
    running(life)
    life.stack.aws.clock.advance(120)
    earlier = life.receive()
    life.stack.aws.clock.advance(120)
    later = life.receive()
    life.dispatch(later)
    before, started = life.row(JOB), starts(life)
    assert life.dispatch(earlier) == [before.message_id]
    assert life.row(JOB) == before
    assert starts(life) == started + 1  # one look whether it lives, and no more
    ends_well(life)


def test_a_message_deleted_and_delivered_once_more_is_deleted_again(life: Life) -> None:
    row = running(life)
    ends_well(life)
    life.stack.sqs.redeliver(life.stack.jobs_url, row.message_id)
    assert life.deliver() == 1
    assert life.stack.messages() == (0, 0)
    assert len(life.stack.executions()) == 1


def test_a_deploy_that_changes_the_stages_defaults_between_two_deliveries_changes_nothing_for_what_runs(
    life: Life,
) -> None:
    row = running(life)
    life.stack.redeploy(size="xlarge", timeout_s=60, stall_timeout_s=1, max_attempts=1, spot=True)
    life.stack.aws.clock.advance(120)
    life.deliver()
    adopted = life.row(JOB)
    assert replace(adopted, receipt_handle=row.receipt_handle, receive_count=1, received_at=row.received_at) == replace(
        row, progress=adopted.progress, adoptions=1
    )
    assert life.stack.executions() == [row.execution_input]
    ends_well(life)


def test_a_deploy_that_changes_the_stages_defaults_leaves_a_retry_what_was_promised_at_the_first_claim(
    life: Life,
) -> None:
    row = running(life)
    life.settle(row, "exit-1")
    life.stack.redeploy(size="xlarge", timeout_s=60, stall_timeout_s=1, max_attempts=1)
    life.stack.aws.clock.advance(120)
    life.deliver()
    retry = life.row(JOB)
    assert (retry.attempt, retry.max_attempts, retry.stall_timeout_s) == (2, row.max_attempts, row.stall_timeout_s)
    assert (retry.input.size, retry.input.timeout_s) == (row.input.size, row.input.timeout_s)
    assert life.send(JOB)
    life.deliver()
    assert life.stack.dead_letters() == []  # the same work still, whatever the defaults say now


def any_of(seed: int) -> Policy:
    rng = random.Random(seed)
    answers: tuple[Stale, ...] = ("work", "ignore", "fail")
    return lambda _: rng.choice(answers)


@pytest.mark.parametrize(
    "stale", ["work", "ignore", "fail", *map(any_of, range(3))], ids=lambda each: each if isinstance(each, str) else ""
)
@pytest.mark.parametrize("end", ["exit-0", "exit-1", "killed", "exit-65-permanent"])
def test_a_whole_job_comes_to_its_end_whatever_old_handles_do(life: Life, stale: Policy, end: str) -> None:
    """Lapsed, delivered twice, handed over, released and deleted, each time by a handle that may have grown old."""
    life.stack.sqs.stale_handles = stale
    row = running(life, max_attempts=2)
    clock = life.stack.aws.clock
    for _ in range(3):
        clock.advance(200)  # lapsed
        life.beat(row)  # by the old handle
        second = life.receive()
        life.stack.sqs.redeliver(life.stack.jobs_url, row.message_id)
        life.deliver()
        life.dispatch(second)
        life.report(row)
        life.beat(row)
    clock.advance(timedelta(hours=11, minutes=30).total_seconds())
    life.report(row)
    life.beat(row)  # hands over, if the handle still is the row's
    life.deliver()
    life.report(row)
    life.beat(row)
    assert (life.row(JOB).attempt, len(life.stack.executions())) == (1, 1)
    life.stack.sqs.redeliver(life.stack.jobs_url, row.message_id)  # from now on the row's handle is an old one
    elsewhere = life.receive()
    if end == "exit-0":
        life.complete_work(row)
    life.settle(row, end)
    life.dispatch(elsewhere)
    clock.advance(1800)
    life.deliver()
    if end in ("exit-1", "killed"):
        until(lambda: life.row(JOB).attempt == 2, lambda: (clock.advance(600), life.deliver()), most=80)
        assert (life.row(JOB).state, life.row(JOB).failures) == (State.RUNNING, 1)
        life.complete(life.row(JOB))
        life.settle(life.row(JOB))
    letters = [why["class"] for _, why in life.stack.dead_letters()]
    assert letters == (["permanent"] if end == "exit-65-permanent" else [])
    assert life.published(JOB) == (end != "exit-65-permanent")
    nothing_is_left(life)


def twice(call: Call, proceed: Proceed) -> Answer:
    """As the SDK does when the first answer was lost. Receives are the mapping's: what a lost answer held comes when its visibility ends."""
    if call.operation != "ReceiveMessage":
        proceed()
    return proceed()


def test_a_whole_job_of_which_the_sdk_repeats_every_call_is_the_same_job(life: Life) -> None:
    life.stack.aws.gate.around = twice
    row = running(life)
    life.beat(row)
    life.settle(row, "exit-1")
    life.stack.aws.clock.advance(300)
    life.deliver()
    second = life.row(JOB)
    assert (second.state, second.attempt, second.failures) == (State.RUNNING, 2, 1)
    life.start_work(second)
    life.stack.parts.leases.hand_over(second.id, str(second.receipt_handle))
    life.complete_work(second)
    assert life.settle(second) == "SUCCEEDED"
    assert life.slots_taken() == 0
    assert len(life.stack.sfn.executions) == 2
    nothing_is_left(life)


@pytest.mark.parametrize("act", ["cancel while it waits", "dead letter"])
def test_an_end_of_which_the_sdk_repeats_every_call_is_the_same_end(life: Life, act: str) -> None:
    row = running(life)
    life.stack.aws.gate.around = twice
    if act == "dead letter":
        life.settle(row, "exit-65-permanent")
    else:
        life.settle(row, "exit-1")
        life.cancel(JOB)
    assert life.row(JOB).is_finished
    assert life.slots_taken() == 0
    letters = [why["class"] for _, why in life.stack.dead_letters()]
    assert set(letters) <= {"permanent"}
    assert bool(letters) == (act == "dead letter")  # twice perhaps, never not at all
    assert life.stack.messages() == (0, 0)
