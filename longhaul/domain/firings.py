"""When a schedule fires, and the message that it sends then. Pure.

Source: "Schedule types" and "Adding context attributes" (EventBridge Scheduler User Guide).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

SCHEDULED_TIME: Final = "<aws.scheduler.scheduled-time>"
SCHEDULE_ARN: Final = "<aws.scheduler.schedule-arn>"

_EDGE: Final = timedelta(days=1)
"""More than any time zone's clocks are moved by."""


@dataclass(frozen=True, kw_only=True)
class DeployedSchedule:
    """A schedule as Scheduler has it."""

    arn: str
    expression: str  # `cron(…)`
    timezone: str
    is_enabled: bool
    created_at: datetime
    changed_at: datetime
    template: str  # the message's body, with Scheduler's keywords

    @property
    def plan(self) -> str:
        """What says when it fires."""
        return f"{self.expression} {self.timezone}"

    def body(self, at: datetime) -> str:
        """The message's body as Scheduler sends it for a firing."""
        text = self.template.replace(SCHEDULED_TIME, at.strftime("%Y-%m-%dT%H:%M:%SZ"))
        return text.replace(SCHEDULE_ARN, self.arn)

    def job_id(self, at: datetime) -> str:
        return str(json.loads(self.body(at))["job_id"])

    def firings(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The times at which it fires, in UTC and in their order: `after` < time <= `until`.

        When clocks are moved forward, a time that there is not is left out; when they are moved
        back, the schedule fires once at a time that there is twice, taken to be the first.

        Raises:
            ValueError: the expression is no cron expression, or the time zone is unknown.
        """
        # Imported here: a sweep of a stack that catches nothing up needs neither.
        from aws_croniter import AwsCroniter  # noqa: PLC0415
        from dateutil import tz  # noqa: PLC0415

        if not self.expression.startswith("cron("):
            raise ValueError(f"{self.expression!r} is no cron expression")
        zone = tz.gettz(self.timezone)
        if zone is None:
            raise ValueError(f"{self.timezone!r} is no time zone")
        cron = AwsCroniter(self.expression.removeprefix("cron(").removesuffix(")"))
        # The library counts in UTC, so it is given what the zone's clocks show as if it were UTC.
        shown = (after - _EDGE).astimezone(zone).replace(tzinfo=UTC)
        while (shown := cron.get_next(shown)[0]) is not None:
            local = shown.replace(tzinfo=zone, fold=0)
            at = local.astimezone(UTC)
            if at > until + _EDGE:
                return
            if after < at <= until and tz.datetime_exists(local):
                yield at


@dataclass(frozen=True)
class CaughtUp:
    """Up to when a stage's firings have been looked at, by the schedule's plan of then."""

    until: datetime
    plan: str


def missed_since(
    schedule: DeployedSchedule, before: CaughtUp | None, *, now: datetime, within: timedelta
) -> datetime:
    """After which time firings can have been missed that nobody has looked at.

    A time before the schedule was made, or was given other times, is none at which it should have
    fired. While it was disabled it should have.
    """
    if before is None:
        # Nobody knows by which times it fired before its last change.
        begin = max(schedule.created_at, schedule.changed_at)
    elif before.plan != schedule.plan:
        begin = max(before.until, schedule.changed_at)
    else:
        begin = before.until
    return max(begin, now - within)
