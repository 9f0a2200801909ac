"""What a stage's schedule sends, and when: checked at synth, as far as that can be known before a firing.

Keywords in angle brackets stand for what is known later: `<data-bucket>` at deployment, EventBridge Scheduler's own at each firing.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from zoneinfo import available_timezones

from pydantic import Field, JsonValue, field_validator

from longhaul.settings import Model

DATA_BUCKET: Final = "<data-bucket>"
SCHEDULED_TIME: Final = "<aws.scheduler.scheduled-time>"
# What the keywords may become, from "Adding context attributes in EventBridge Scheduler" (EventBridge Scheduler User Guide).
EXAMPLES: Final[Mapping[str, str]] = {
    DATA_BUCKET: "data-bucket",
    SCHEDULED_TIME: "2022-03-22T18:59:43Z",
    "<aws.scheduler.schedule-arn>": "arn:aws:scheduler:us-east-1:123456789012:schedule/default/Longhaul-main",
}
# New with each attempt at delivering one firing, says that page: delivered twice, the firing would be two jobs, or a conflict.
PER_ATTEMPT: Final = ("<aws.scheduler.execution-id>", "<aws.scheduler.attempt-number>")
# The time for which the firing was meant names it, however often it is delivered.
JOB_ID: Final = f"scheduled/{SCHEDULED_TIME}"

_KEYWORD: Final = re.compile(r"<[a-z][a-z.-]*>")
_RATE: Final = re.compile(r"rate\([1-9]\d* (minutes?|hours?|days?)\)")
_CRON: Final = re.compile(r"cron\(([^()]*)\)")
_MONTHS: Final = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS: Final = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
# Name, least and greatest value, names of values, what else the field may be. From "Schedule types on EventBridge Scheduler".
_CRON_FIELDS: Final = (
    ("minutes", 0, 59, (), r"(?!)"),
    ("hours", 0, 23, (), r"(?!)"),
    ("day of month", 1, 31, (), r"\?|L|LW|([12]?\d|3[01])W"),
    ("month", 1, 12, _MONTHS, r"(?!)"),
    ("day of week", 1, 7, _DAYS, rf"\?|L|([1-7]|{'|'.join(_DAYS)})(L|#[1-5])"),
    ("year", 1970, 2199, (), r"(?!)"),
)


class Schedule(Model):
    """A job that recurs: one message to the stage's queue at each firing."""

    # `rate(…)` or `cron(…)`.
    expression: str
    timezone: str = "UTC"
    # The message's body. Its `job_id` is made of the firing's time, unless it says itself how.
    request: dict[str, JsonValue] = Field(min_length=1)

    @field_validator("expression")
    @classmethod
    def _recurs(cls, value: str) -> str:
        if cron := _CRON.fullmatch(value):
            _check_cron(cron[1].split())
        elif not _RATE.fullmatch(value):
            raise ValueError(
                f"{value!r} is no schedule that recurs; allowed: rate(5 minutes), cron(0 2 * * ? *). For a single start see docs/scheduling.md"
            )
        return value

    @field_validator("timezone")
    @classmethod
    def _on_the_map(cls, value: str) -> str:
        known = available_timezones()
        # A machine without a time zone database cannot tell; the deployment will.
        if known and value not in known:
            raise ValueError(f"{value!r} is no time zone; allowed: names such as UTC, Europe/Berlin")
        return value

    @field_validator("request")
    @classmethod
    def _same_for_each_delivery(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        used = set(_KEYWORD.findall(json.dumps(value)))
        if per_attempt := used & set(PER_ATTEMPT):
            raise ValueError(
                f"{', '.join(sorted(per_attempt))} differs between deliveries of one firing; use {SCHEDULED_TIME}, which names it"
            )
        if unknown := used - set(EXAMPLES):
            raise ValueError(f"{', '.join(sorted(unknown))}: unknown; allowed: {', '.join(EXAMPLES)}")
        if "job_id" in value and SCHEDULED_TIME not in str(value["job_id"]):
            raise ValueError(
                f"job_id must hold {SCHEDULED_TIME}: with the same one each time, all firings after the first would be its duplicates"
            )
        return value

    def body(self, data_bucket: str) -> dict[str, JsonValue]:
        """The message's body as the target's input: with Scheduler's keywords still in it."""
        return _replaced_all({"job_id": JOB_ID, **self.request}, {DATA_BUCKET: data_bucket})

    def example(self) -> dict[str, JsonValue]:
        """The body as a firing might bring it."""
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


def _check_cron(fields: list[str]) -> None:
    if len(fields) != len(_CRON_FIELDS):
        raise ValueError(
            f"a cron expression has six fields (minutes, hours, day of month, month, day of week, year); this one has {len(fields)}"
        )
    for text, (name, least, greatest, names, also) in zip(fields, _CRON_FIELDS, strict=True):
        if re.fullmatch(also, text):
            continue
        for item in text.split(","):
            _check_item(item, name, least, greatest, names)
    if (fields[2] == "?") == (fields[4] == "?"):
        raise ValueError("exactly one of a cron expression's day of month and day of week must be ?")


def _check_item(item: str, name: str, least: int, greatest: int, names: Sequence[str]) -> None:
    """One of a field's comma-separated items: `*`, a value, a range; each with a step or without."""
    value = rf"(\d+|{'|'.join(names)})" if names else r"(\d+)"
    match = re.fullmatch(rf"(\*|{value}(-{value})?)(/[1-9]\d*)?", item)
    numbers = [int(each) for each in re.findall(r"\d+", item.partition("/")[0])] if match else []
    if not match or any(not least <= number <= greatest for number in numbers):
        raise ValueError(
            f"{item!r} is no {name} of a cron expression; allowed: {least} to {greatest}, ranges, steps, lists"
        )
