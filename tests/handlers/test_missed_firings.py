"""A schedule with `catch_up_s`: each firing has its job, whatever Scheduler or a sweep lost."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from longhaul.domain.lease import State
from longhaul.settings import CatchUp
from tests.builders import BUCKET
from tests.handlers.conftest import deployed
from tests.handlers.life import Kill, Life

HOUR = 3_600
SCHEDULE = "Longhaul-main"
TEMPLATE = json.dumps(
    {
        "job_id": "scheduled/<aws.scheduler.scheduled-time>",
        "job": "flights_clean",
        "inputs": {"flights": f"s3://{BUCKET}/raw/"},
        "output": f"s3://{BUCKET}/clean/<aws.scheduler.scheduled-time>/",
    }
)


@pytest.fixture
def life(output: Path) -> Iterator[Life]:
    with deployed(catch_up=CatchUp(schedule=SCHEDULE, within_s=7 * 24 * HOUR)) as stack:
        yield hourly(Life(stack, output))


def hourly(life: Life) -> Life:
    life.stack.aws.scheduler.put(
        SCHEDULE,
        at=life.stack.aws.clock.now(),
        ScheduleExpression="cron(0 * * * ? *)",
        ScheduleExpressionTimezone="UTC",
        Target={"Input": TEMPLATE},
    )
    return life


def fire(life: Life) -> str:
    """Wait until the schedule's next time; the body that Scheduler would send."""
    at = next_hour(life.stack.aws.clock.now())
    life.stack.aws.clock.advance((at - life.stack.aws.clock.now()).total_seconds())
    return TEMPLATE.replace("<aws.scheduler.scheduled-time>", f"{at:%Y-%m-%dT%H:%M:%SZ}")


def next_hour(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


def send(life: Life, body: str) -> None:
    life.stack.sqs.send_message(QueueUrl=life.stack.jobs_url, MessageBody=body)


def waiting(life: Life) -> list[str]:
    """The ids of the jobs for which messages are in the queue, each message once."""
    messages = life.stack.sqs.queues[life.stack.jobs_url].messages.values()
    return sorted(json.loads(message.body)["job_id"] for message in messages)


def job_of(body: str) -> str:
    return str(json.loads(body)["job_id"])


def test_a_lost_firing_is_sent_once_after_a_quarter_of_an_hour(life: Life) -> None:
    lost = fire(life)
    assert (life.sweep(), waiting(life)) == ({}, [])
    life.stack.aws.clock.advance(15 * 60)

    assert (life.sweep(), waiting(life)) == ({"caught_up": 1}, [job_of(lost)])
    assert (life.sweep(), waiting(life)) == ({}, [job_of(lost)])
    life.deliver()
    assert life.row(job_of(lost)).run


def test_what_scheduler_sent_is_not_sent_again(life: Life) -> None:
    send(life, fire(life))
    life.deliver()
    life.stack.aws.clock.advance(20 * 60)
    assert "caught_up" not in life.sweep()


def test_a_firing_that_was_refused_has_its_dead_letter_and_no_second_one(life: Life) -> None:
    body = {**json.loads(fire(life)), "job": "no_such_job"}
    send(life, json.dumps(body))
    life.deliver()
    assert len(life.stack.dead_letters()) == 1
    life.stack.aws.clock.advance(20 * 60)
    assert (life.sweep(), waiting(life)) == ({}, [])


def test_a_repeat_of_what_waits_is_deleted_as_a_duplicate(life: Life) -> None:
    body = fire(life)
    send(life, body)
    life.stack.aws.clock.advance(20 * 60)
    life.sweep()
    assert waiting(life) == [job_of(body)] * 2
    life.deliver()
    assert len(life.rows()) == 1
    assert life.stack.dead_letters() == []


def test_what_a_disabled_schedule_missed_is_sent_when_it_is_enabled(life: Life) -> None:
    scheduler, clock = life.stack.aws.scheduler, life.stack.aws.clock
    life.sweep()
    scheduler.put(SCHEDULE, at=clock.now(), State="DISABLED")
    missed = [fire(life) for _ in range(3)]
    clock.advance(20 * 60)
    assert life.sweep() == {}
    scheduler.put(SCHEDULE, at=clock.now(), State="ENABLED")
    assert life.sweep() == {"caught_up": 3}
    assert waiting(life) == [job_of(body) for body in missed]


def test_a_schedule_that_is_not_there_leaves_the_rest_of_the_sweep_alone(life: Life) -> None:
    life.stack.aws.scheduler.schedules.clear()
    assert life.sweep() == {}


def test_a_schedule_that_cannot_be_read_is_counted_and_tried_again(life: Life) -> None:
    fire(life)
    life.stack.aws.clock.advance(20 * 60)
    properties = life.stack.aws.scheduler.schedules[SCHEDULE]
    properties["ScheduleExpressionTimezone"] = "Europe/Bonn"
    assert life.sweep() == {"failed": 1}
    properties["ScheduleExpressionTimezone"] = "UTC"
    assert life.sweep() == {"caught_up": 1}


def test_more_than_a_sweeps_worth_is_sent_by_the_next_ones(life: Life) -> None:
    properties = life.stack.aws.scheduler.schedules[SCHEDULE]
    properties["ScheduleExpression"] = "cron(* * * * ? *)"
    life.stack.aws.clock.advance(4 * HOUR)
    assert [life.sweep().get("caught_up", 0) for _ in range(4)] == [100, 100, 25, 0]
    assert len(set(waiting(life))) == len(waiting(life)) == 225


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", range(1, 12))
def test_a_sweep_that_dies_at_any_call_loses_no_firing(
    output: Path, call: int, *, after: bool
) -> None:
    with deployed(catch_up=CatchUp(schedule=SCHEDULE, within_s=24 * HOUR)) as stack:
        life = hourly(Life(stack, output))
        lost = [job_of(fire(life)) for _ in range(3)]
        stack.aws.clock.advance(20 * 60)
        with Kill(stack.aws.gate, call, after=after):
            life.sweep()
        life.sweep()
        assert sorted(set(waiting(life))) == lost


@hypothesis_settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from(["lost", "sent", "twice", "late"]), min_size=1, max_size=6))
def test_each_firing_has_one_job_whatever_became_of_it(output: Path, fates: list[str]) -> None:
    with deployed(catch_up=CatchUp(schedule=SCHEDULE, within_s=7 * 24 * HOUR)) as stack:
        life = hourly(Life(stack, output))
        expected, late = [], []
        for fate in fates:
            body = fire(life)
            expected.append(f"main#{job_of(body)}")
            if fate == "late":
                late.append(body)
            for _ in range({"lost": 0, "late": 0, "sent": 1, "twice": 2}[fate]):
                send(life, body)
            life.sweep()
        stack.aws.clock.advance(20 * 60)
        life.sweep()
        for body in late:
            send(life, body)
        life.deliver()
        while running := [row for row in life.rows() if row.state is State.RUNNING]:
            for row in running:
                life.complete(row)
                life.settle(row)
            stack.aws.clock.advance(HOUR)
            life.deliver()
        assert sorted(row.key for row in life.rows()) == sorted(expected)
        assert {row.state for row in life.rows()} == {State.SUCCEEDED}
        assert {row.id.attempt for row in life.rows()} == {1}
