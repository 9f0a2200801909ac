"""What a stage sends by itself: on a schedule, and for each object that is created.

Imports no CDK.

Keywords in angle brackets stand for what is known later: `<data-bucket>` at deployment, EventBridge
Scheduler's own when the schedule fires.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field, JsonValue, field_validator

from longhaul.core.message import FIRST_SENT
from longhaul.core.request import OBJECT
from longhaul.core.settings import Model

DATA_BUCKET: Final = "<data-bucket>"
SCHEDULED_TIME: Final = "<aws.scheduler.scheduled-time>"
EXAMPLES: Final[Mapping[str, str]] = {
    DATA_BUCKET: "data",
    SCHEDULED_TIME: "2022-03-22T18:59:43Z",
    "<aws.scheduler.schedule-arn>": (
        "arn:aws:scheduler:us-east-1:123456789012:schedule/default/Longhaul-main"
    ),
}
"""Keyword → an example of its value.

Source: "Adding context attributes in EventBridge Scheduler" (EventBridge Scheduler User Guide).
"""
# The scheduled time is the same however often a message is delivered.
JOB_ID: Final = f"scheduled/{SCHEDULED_TIME}"

_KEYWORD: Final = re.compile(r"<[a-z][a-z.-]*>")


class Schedule(Model):
    """A job that recurs: one message to the stage's queue each time."""

    # `rate(5 minutes)`, or `cron(…)` with six fields; the deployment checks what they say. For a
    # single start see docs/daily.md#when-jobs-start.
    expression: Annotated[
        str, Field(pattern=r"^(rate\([0-9]+ (minute|hour|day)s?\)|cron\([^()\s]+( [^()\s]+){5}\))$")
    ]
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


class Trigger(Model):
    """A job for each object that is created: one message to the stage's queue."""

    # None: the data bucket. Another bucket's owner lets it send events (docs/daily.md).
    bucket: str | None = None
    # Of the objects' keys: one or more folders.
    prefix: Annotated[str, Field(pattern=r"^([A-Za-z0-9_-][A-Za-z0-9._=-]*/)+$")]
    # How the keys end. Empty: any.
    suffix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._=-]*$")] = ""
    # The message's body, in which `{object}` is the object's path, and `{object.id}` the job's id.
    request: dict[str, JsonValue] = Field(min_length=1)

    @field_validator("request")
    @classmethod
    def _of_each_object(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if "job_id" in value or "object" in value:
            raise ValueError("job_id and object are made for each object; leave them out")
        if OBJECT not in json.dumps(value.get("inputs", {})):
            raise ValueError(f"no input is {OBJECT}: the job would not see its object")
        # An output to which each job adds may be the same for all: a table, most likely.
        outputs = value.get("outputs")
        places = [value.get("output", ""), *(outputs.values() if isinstance(outputs, dict) else ())]
        if value.get("mode") != "append" and any("{object.id}" not in str(p) for p in places):
            raise ValueError(
                "output must hold {object.id}, and each of outputs too: with the same one for each "
                "object, every job would replace the output of the last; or let mode be append"
            )
        if "<" in json.dumps(value).replace(DATA_BUCKET, ""):
            raise ValueError(f"'<' begins a keyword of EventBridge; allowed: {DATA_BUCKET}")
        return value

    def body(self, data_bucket: str) -> dict[str, JsonValue]:
        """The message's body, without the object."""
        return _replaced(self.request, {DATA_BUCKET: data_bucket})

    def example(self, data_bucket: str) -> dict[str, JsonValue]:
        """A body as EventBridge might send it."""
        return {
            **self.body(data_bucket),
            "object": {
                "bucket": {"name": self.bucket or data_bucket},
                "object": {
                    "key": f"{self.prefix}file{self.suffix}",
                    "etag": "b1946ac92492d2347c6235b4d2611184",
                },
            },
        }


def _replaced(body: JsonValue, values: Mapping[str, str]) -> dict[str, JsonValue]:
    text = json.dumps(body)
    for keyword, value in values.items():
        text = text.replace(keyword, value)
    replaced: dict[str, JsonValue] = json.loads(text)
    return replaced
