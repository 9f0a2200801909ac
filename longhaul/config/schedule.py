"""What a stage's schedule sends, and when. Imports no CDK.

Keywords in angle brackets stand for what is known later: `<data-bucket>` at deployment, EventBridge
Scheduler's own when the schedule fires.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final
from zoneinfo import available_timezones

from pydantic import Field, JsonValue, field_validator

from longhaul.domain.attributes import FIRST_SENT
from longhaul.settings import Model

DATA_BUCKET: Final = "<data-bucket>"
SCHEDULED_TIME: Final = "<aws.scheduler.scheduled-time>"
SCHEDULE_ARN: Final = "<aws.scheduler.schedule-arn>"
EXAMPLES: Final[Mapping[str, str]] = {
    DATA_BUCKET: "data",
    SCHEDULED_TIME: "2022-03-22T18:59:43Z",
    SCHEDULE_ARN: ("arn:aws:scheduler:us-east-1:123456789012:schedule/default/Longhaul-main"),
}
"""Keyword → an example of its value.

Source: "Adding context attributes in EventBridge Scheduler" (EventBridge Scheduler User Guide).
"""
# These change with each attempt to deliver the same message: a message delivered twice would be two
# jobs, or a conflict.
PER_ATTEMPT: Final = ("<aws.scheduler.execution-id>", "<aws.scheduler.attempt-number>")
# The scheduled time is the same however often a message is delivered.
JOB_ID: Final = f"scheduled/{SCHEDULED_TIME}"

_KEYWORD: Final = re.compile(r"<[a-z][a-z.-]*>")


class Schedule(Model):
    """A job that recurs: one message to the stage's queue each time."""

    # `rate(…)` or `cron(…)`; the deployment checks what is between the parentheses.
    expression: str
    # In which a cron expression is read.
    timezone: str = "UTC"
    # The message's body. Without a `job_id` it gets one made of the scheduled time.
    request: dict[str, JsonValue] = Field(min_length=1)

    @field_validator("expression")
    @classmethod
    def _recurs(cls, value: str) -> str:
        if not re.fullmatch(r"(rate|cron)\([^()]+\)", value):
            raise ValueError(
                f"{value!r} is no schedule that recurs; allowed: rate(5 minutes), "
                "cron(0 2 * * ? *). For a single start see docs/daily.md#when-jobs-start"
            )
        return value

    @field_validator("timezone")
    @classmethod
    def _check_time_zone(cls, value: str) -> str:
        # Empty on a machine without a time zone database: then only the deployment checks it.
        if (known := available_timezones()) and value not in known:
            raise ValueError(
                f"{value!r} is no time zone; allowed: names such as UTC, Europe/Berlin"
            )
        return value

    @field_validator("request")
    @classmethod
    def _same_for_each_delivery(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        # Checked without a clock: what synthesis takes today, it takes in a year.
        if "start_at" in value:
            raise ValueError(
                "start_at is one time, and the schedule fires at many: leave it out, and let "
                "expression say when"
            )
        used = set(_KEYWORD.findall(json.dumps(value)))
        if per_attempt := used & set(PER_ATTEMPT):
            raise ValueError(
                f"{', '.join(sorted(per_attempt))} differs between deliveries of one firing; "
                f"use {SCHEDULED_TIME}, which names it"
            )
        if unknown := used - set(EXAMPLES):
            raise ValueError(
                f"{', '.join(sorted(unknown))}: unknown; allowed: {', '.join(EXAMPLES)}"
            )
        if "job_id" in value and SCHEDULED_TIME not in str(value["job_id"]):
            raise ValueError(
                f"job_id must hold {SCHEDULED_TIME}: with the same one each time, "
                "all firings after the first would be its duplicates"
            )
        return value

    def body(self, data_bucket: str) -> dict[str, JsonValue]:
        """The message's body as the target's input, with Scheduler's keywords in it."""
        return _replaced_all({"job_id": JOB_ID, **self.request}, {DATA_BUCKET: data_bucket})

    def call(self, queue_url: str, data_bucket: str) -> dict[str, JsonValue]:
        """The call of SQS's SendMessage that Scheduler makes, with its keywords in it.

        The work is as old as its firing: a second delivery is sent before the job's end or cancel,
        whenever it comes.
        """
        sent: JsonValue = {"DataType": "String", "StringValue": SCHEDULED_TIME}
        return {
            "QueueUrl": queue_url,
            "MessageBody": json.dumps(self.body(data_bucket)),
            "MessageAttributes": {FIRST_SENT: sent},
        }

    def example(self) -> dict[str, JsonValue]:
        """A body as Scheduler might send it."""
        return _replaced_all(self.body(DATA_BUCKET), EXAMPLES)


def _replaced_all(body: Mapping[str, JsonValue], values: Mapping[str, str]) -> dict[str, JsonValue]:
    def replace(text: str) -> str:
        for keyword, value in values.items():
            text = text.replace(keyword, value)
        return text

    return {replace(name): _replaced(value, replace) for name, value in body.items()}


def _replaced(value: JsonValue, replace: Callable[[str], str]) -> JsonValue:
    match value:
        case str():
            return replace(value)
        case list():
            return [_replaced(each, replace) for each in value]
        case dict():
            return {replace(name): _replaced(each, replace) for name, each in value.items()}
        case _:
            return value
