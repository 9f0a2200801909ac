"""What a stage's schedule sends, and when. Imports no CDK.

Keywords in angle brackets stand for what is known later: `<data-bucket>` at deployment, EventBridge
Scheduler's own when the schedule fires.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final
from zoneinfo import available_timezones

from pydantic import Field, JsonValue, ValidationInfo, field_validator

from longhaul.domain.firings import SCHEDULE_ARN, SCHEDULED_TIME
from longhaul.settings import Model

DATA_BUCKET: Final = "<data-bucket>"
EXAMPLES: Final[Mapping[str, str]] = {
    DATA_BUCKET: "data-bucket",
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
    # Firings of the last so many seconds that have no job are sent: Scheduler could not deliver
    # them within a day, or the schedule was disabled. 0: none. At most 14 days, as long as SQS
    # would keep their messages. With `cron(…)` alone: `rate(…)` counts from a time of AWS's own.
    catch_up_s: int = Field(default=0, ge=0, le=14 * 86_400)

    @field_validator("expression")
    @classmethod
    def _recurs(cls, value: str) -> str:
        if not re.fullmatch(r"(rate|cron)\([^()]+\)", value):
            raise ValueError(
                f"{value!r} is no schedule that recurs; allowed: rate(5 minutes), "
                "cron(0 2 * * ? *). For a single start see docs/scheduling.md"
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

    @field_validator("catch_up_s")
    @classmethod
    def _firings_known(cls, value: int, info: ValidationInfo) -> int:
        expression = info.data.get("expression")
        if not value or expression is None:
            return value
        kind, _, fields = expression.removesuffix(")").partition("(")
        if kind != "cron":
            raise ValueError(
                f"needs a cron expression, not {expression!r}: when a rate fires depends on when "
                "AWS made the schedule"
            )
        # Imported here: the other settings do without.
        from aws_croniter import AwsCroniter  # noqa: PLC0415
        from aws_croniter.exceptions import AwsCroniterExpressionError  # noqa: PLC0415

        try:
            AwsCroniter(fields)
        except (AwsCroniterExpressionError, ValueError) as error:
            raise ValueError(f"cannot be used with {expression!r}: {error}") from error
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
