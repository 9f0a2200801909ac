"""Scheduler's answer about a schedule, from the strict fake and from moto."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from longhaul.adapters.scheduler import AwsSchedules
from simulation.aws.cloud import FakeAws
from simulation.aws.shapes import checked
from tests.contract.moto_account import moto_account

Make = Callable[..., AwsSchedules]
NAME = "Longhaul-main"
PROPERTIES: dict[str, Any] = {
    "ScheduleExpression": "cron(30 2 * * ? *)",
    "ScheduleExpressionTimezone": "Europe/Berlin",
    "Target": {"Arn": "arn:aws:sqs:us-east-1:123456789012:q", "RoleArn": "r", "Input": "{}"},
}


@pytest.fixture(params=["strict", "moto"])
def make(request: pytest.FixtureRequest) -> Any:
    """Makes a schedule, and gives the port that reads it."""
    if request.param == "strict":
        fake = FakeAws(around=checked)

        def put(**properties: Any) -> AwsSchedules:
            fake.scheduler.put(NAME, at=fake.clock.now(), **{**PROPERTIES, **properties})
            return AwsSchedules(fake.client("scheduler"))

        yield put
        return
    with moto_account() as client_of:

        def create(**properties: Any) -> AwsSchedules:
            client = client_of("scheduler")
            window = {"Mode": "OFF"}
            given = {**PROPERTIES, **properties}
            client.create_schedule(Name=NAME, FlexibleTimeWindow=window, **given)
            return AwsSchedules(client)

        yield create


def test_a_schedule_is_read_as_it_is_deployed(make: Make) -> None:
    schedule = make().load(NAME)
    assert schedule is not None
    assert schedule.arn == "arn:aws:scheduler:us-east-1:123456789012:schedule/default/Longhaul-main"
    assert (schedule.expression, schedule.timezone) == ("cron(30 2 * * ? *)", "Europe/Berlin")
    assert (schedule.is_enabled, schedule.template) == (True, "{}")
    assert schedule.created_at == schedule.changed_at


def test_a_disabled_schedule_is_not_enabled(make: Make) -> None:
    schedule = make(State="DISABLED").load(NAME)
    assert schedule is not None
    assert not schedule.is_enabled


def test_a_schedule_that_begins_later_was_not_there_before(make: Make) -> None:
    begins_at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    schedule = make(StartDate=begins_at).load(NAME)
    assert schedule is not None
    assert schedule.created_at == begins_at


def test_there_is_no_schedule_of_another_name(make: Make) -> None:
    assert make().load("Longhaul-other") is None
