"""Schedules of the embedded AWS: when they fire, and what becomes of it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from moto import mock_aws
from moto.core.models import DEFAULT_ACCOUNT_ID

from longhaul.local.schedule_driver import ScheduleDriver

REGION = "us-east-1"
NAME = "Longhaul-main"


@pytest.fixture
def cloud() -> Iterator["Cloud"]:
    with mock_aws():
        yield Cloud()


class Cloud:
    """A queue, its dead-letter queue, and schedules that send to it."""

    def __init__(self) -> None:
        self.sqs = boto3.client("sqs", REGION)
        self.scheduler = boto3.client("scheduler", REGION)
        self.queue = self.sqs.create_queue(QueueName="jobs")["QueueUrl"]
        self.undelivered = self.sqs.create_queue(QueueName="undelivered")["QueueUrl"]
        self.driver = ScheduleDriver(account=DEFAULT_ACCOUNT_ID, region=REGION)
        self.made_at = datetime.now(UTC)

    def schedule(self, expression: str, timezone: str = "UTC", **more: Any) -> None:
        arn = f"arn:aws:sqs:{REGION}:{DEFAULT_ACCOUNT_ID}"
        window = more.pop("window", {"Mode": "OFF"})
        self.scheduler.create_schedule(
            Name=NAME,
            ScheduleExpression=expression,
            ScheduleExpressionTimezone=timezone,
            FlexibleTimeWindow=window,
            Target={
                "Arn": more.pop("arn", f"{arn}:jobs"),
                "RoleArn": "arn:aws:iam::123456789012:role/r",
                "Input": more.pop("text", "<aws.scheduler.scheduled-time>"),
                "DeadLetterConfig": {"Arn": f"{arn}:undelivered"},
            },
            **more,
        )

    def look(self, after: timedelta) -> list[str]:
        """What is in the queue when the driver has looked so long after the beginning."""
        self.driver.fire_due(self.made_at + after)
        return self.texts(self.queue)

    def texts(self, queue: str) -> list[str]:
        answer = self.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        for each in answer.get("Messages", []):
            self.sqs.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])
        return sorted(each["Body"] for each in answer.get("Messages", []))


def test_a_rate_fires_at_each_of_its_times_once(cloud: Cloud) -> None:
    cloud.schedule("rate(5 minutes)")
    minute = timedelta(minutes=1)
    assert cloud.look(1 * minute) == []
    assert len(cloud.look(6 * minute)) == 1
    assert cloud.look(7 * minute) == []
    assert len(cloud.look(16 * minute)) == 2


def test_an_error_costs_one_firing(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.schedule("rate(5 minutes)")
    with monkeypatch.context() as patched:
        patched.setattr("moto.sqs.models.SQSBackend.send_message", Mock(side_effect=OSError))
        assert cloud.look(timedelta(minutes=6)) == []
    assert len(cloud.look(timedelta(minutes=11))) == 1


def test_a_cron_expression_is_read_in_its_time_zone(cloud: Cloud) -> None:
    cloud.schedule("cron(0 12 * * ? *)", "Asia/Tokyo")
    times = cloud.look(timedelta(days=2))
    assert len(times) == 2
    assert all(each.endswith("T03:00:00Z") for each in times)


@pytest.mark.parametrize("state", ["DISABLED", "ENABLED"])
def test_a_disabled_or_deleted_schedule_does_not_fire(cloud: Cloud, state: str) -> None:
    cloud.schedule("rate(1 minute)", State=state)
    assert cloud.look(timedelta(0)) == []
    if state == "ENABLED":
        cloud.scheduler.delete_schedule(Name=NAME)
    assert cloud.look(timedelta(hours=1)) == []


def test_a_call_of_send_message_sends_its_attributes_as_well(cloud: Cloud) -> None:
    time = "<aws.scheduler.scheduled-time>"
    attributes = {"at": {"DataType": "String", "StringValue": time}}
    call = {"QueueUrl": cloud.queue, "MessageBody": time, "MessageAttributes": attributes}
    arn = "arn:aws:scheduler:::aws-sdk:sqs:sendMessage"
    cloud.schedule("rate(1 hour)", arn=arn, text=json.dumps(call))
    cloud.driver.fire_due(cloud.made_at + timedelta(hours=1, minutes=1))
    answer = cloud.sqs.receive_message(QueueUrl=cloud.queue, MessageAttributeNames=["All"])
    (message,) = answer["Messages"]
    assert message["MessageAttributes"]["at"]["StringValue"] == message["Body"]
    assert datetime.fromisoformat(message["Body"]) > cloud.made_at


def test_what_its_role_may_not_send_goes_to_the_dead_letter_queue(cloud: Cloud) -> None:
    asked = []

    def allows(*access: str) -> bool:
        asked.append(access)
        return False

    cloud.driver = ScheduleDriver(account=DEFAULT_ACCOUNT_ID, region=REGION, allows=allows)
    cloud.schedule("rate(1 hour)")
    assert cloud.look(timedelta(hours=1, minutes=1)) == []
    assert len(cloud.texts(cloud.undelivered)) == 1
    queue = f"arn:aws:sqs:{REGION}:{DEFAULT_ACCOUNT_ID}:jobs"
    assert asked == [("arn:aws:iam::123456789012:role/r", "sqs:SendMessage", queue)]


@pytest.mark.parametrize(
    ("expression", "more"),
    [
        ("at(2027-01-01T00:00:00)", {}),
        ("cron(0 2 * * * *)", {}),
        ("rate(1 hour)", {"window": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 5}}),
    ],
)
def test_what_is_not_driven_is_logged_and_leaves_the_others_alone(
    cloud: Cloud, caplog: pytest.LogCaptureFixture, expression: str, more: dict[str, Any]
) -> None:
    cloud.schedule(expression, **more)
    assert cloud.look(timedelta(days=1)) == []
    assert f"{NAME} does not fire" in caplog.text
    caplog.clear()
    cloud.look(timedelta(days=2))
    assert caplog.text == ""
