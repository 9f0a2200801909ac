"""Jobs that run or wait longer than SQS allows for one message.

The limits are 12 hours of invisibility, 1,000 receives and 10 days of retention.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from longhaul.core import transitions
from longhaul.core.lease import Lease, State, joined_ref
from longhaul.core.settings import Stage
from simulation.aws.service import Answer, Call, Proceed, unavailable
from tests.builders import BUCKET
from tests.events import event
from tests.faults import failing
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_dispatcher import dispatch
from tests.handlers.test_stages import (
    STAGES,
    begun,
    dispatched,
    emitting,
    end_well,
)

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


# A copy replaces a message before SQS drops the message.
#
# Neither the job nor the message is lost or doubled.


def test_a_message_that_could_not_be_renewed_is_not_adopted_and_comes_back_soon(
    stack: Stack, context: Context
) -> None:
    """The beats of a job hide an adopted message for half a day, and it may be too old by then."""
    dispatch("new-job", context)
    before = stack.row()
    batch = event("dispatcher", "redelivery")
    batch["Records"][0]["attributes"]["ApproximateReceiveCount"] = "900"
    with failing(stack.aws.gate, unavailable, "SendMessage"):
        assert dispatch(batch, context) == [batch["Records"][0]["messageId"]]
    assert stack.row() == before


# A follow-on that waits for months starts: what proves where it comes from lives as long.


CLEAN, DELAYS = STAGES[1:]


@pytest.fixture
def pipeline() -> Iterator[Stack]:
    with deployed(check=False, stages=STAGES) as stack:
        yield stack


def succeed(stack: Stack, context: Context) -> str:
    """A job of the first stage emits two, which wait in the second stage; returns its key."""
    return begun(stack, context, emitting(2)).key


def wait(stack: Stack, stage: Stage, days: int, context: Context) -> None:
    """The messages of a paused stage are received every half day; DynamoDB deletes what is due."""
    rows = stack.aws.dynamodb.tables[stack.settings.leases_table]
    end = stack.aws.clock.now() + timedelta(days=days)
    while stack.aws.clock.now() < end:
        assert dispatched(stack, stage, context) == []
        stack.aws.clock.advance(43_200)
        now = stack.aws.clock.now().timestamp()
        for place, row in list(rows.rows.items()):
            if row.item and float(row.item.get("ttl", {"N": "inf"})["N"]) < now:
                stack.aws.dynamodb.expire(stack.settings.leases_table, place)


def start(stack: Stack, stage: Stage, context: Context) -> list[str]:
    """Keys of the jobs that start after the pause."""
    stack.parts.slots.resume(stage, stack.aws.clock.now())
    return [row.key for row in dispatched(stack, stage, context)]


def test_follow_on_that_waited_for_130_days_starts(pipeline: Stack, context: Context) -> None:
    succeed(pipeline, context)
    pipeline.parts.slots.pause(CLEAN, pipeline.aws.clock.now())

    wait(pipeline, CLEAN, 130, context)

    assert len(start(pipeline, CLEAN, context)) == 2
    assert pipeline.dead_letters(CLEAN) == []


def test_join_that_waited_for_130_days_starts_with_inputs_that_live_on(
    pipeline: Stack, context: Context
) -> None:
    succeed(pipeline, context)
    for row in dispatched(pipeline, CLEAN, context):
        end_well(pipeline, row, context)
    pipeline.parts.slots.pause(DELAYS, pipeline.aws.clock.now())

    wait(pipeline, DELAYS, 130, context)

    (key,) = start(pipeline, DELAYS, context)
    assert pipeline.dead_letters(DELAYS) == []
    # The bucket's lifecycle rule counts from here.
    assert pipeline.aws.clock.now() - stored_at(pipeline, key) < timedelta(days=8)


def stored_at(stack: Stack, key: str) -> datetime:
    found = stack.aws.s3.head_object(Bucket=BUCKET, Key=joined_ref(key, 0))["LastModified"]
    assert isinstance(found, datetime)
    return found
