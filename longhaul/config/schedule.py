"""What a stage's schedule sends, and when. Imports no CDK.

Keywords in angle brackets stand for what is known later: `<data-bucket>` at deployment, EventBridge
Scheduler's own when the schedule fires.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field, JsonValue, field_validator

from longhaul.core.attributes import FIRST_SENT
from longhaul.core.settings import Model

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
# The scheduled time is the same however often a message is delivered.
JOB_ID: Final = f"scheduled/{SCHEDULED_TIME}"

_KEYWORD: Final = re.compile(r"<[a-z][a-z.-]*>")


class Schedule(Model):
    """A job that recurs: one message to the stage's queue each time."""

    # `rate(…)` or `cron(…)`; the deployment checks what is between the parentheses. For a single
    # start see docs/daily.md#when-jobs-start.
    expression: Annotated[str, Field(pattern=r"^(rate|cron)\([^()]+\)$")]
    # In which a cron expression is read, such as `Europe/Berlin`.
    timezone: str = "UTC"
    # The message's body. Without a `job_id` it gets one made of the scheduled time.
    request: dict[str, JsonValue] = Field(min_length=1)

    @field_validator("request")
    @classmethod
    def _same_for_each_delivery(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        # Scheduler has others, which differ between two deliveries of one firing: such a message
        # would be two jobs, or a conflict.
        if unknown := {*_KEYWORD.findall(json.dumps(value))} - {*EXAMPLES}:
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
        return _replaced({"job_id": JOB_ID, **self.request}, {DATA_BUCKET: data_bucket})

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
        return _replaced(self.body(DATA_BUCKET), EXAMPLES)


def _replaced(body: JsonValue, values: Mapping[str, str]) -> dict[str, JsonValue]:
    text = json.dumps(body)
    for keyword, value in values.items():
        text = text.replace(keyword, value)
    replaced: dict[str, JsonValue] = json.loads(text)
    return replaced
