"""When a schedule of EventBridge Scheduler fires."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aws_croniter import AwsCroniter
from dateutil import tz

SECONDS: Final = {"minute": 60, "hour": 3600, "day": 86_400}


def following(expression: str, zone: str, made_at: datetime, after: datetime) -> datetime | None:
    """The first firing after then; None: there is none.

    Args:
        expression: `cron(…)` or `rate(…)`.
        zone: In which a cron expression is read, such as `Europe/Berlin`.
        made_at: When the schedule was made: a rate counts from there.
        after: In aware UTC.

    Raises:
        ValueError: it is neither, or its time zone is unknown.
    """
    kind, _, rest = expression.removesuffix(")").partition("(")
    if kind == "cron":
        return _following_cron(rest, tz.gettz(zone), after)
    match = re.fullmatch(r"(\d+) (minute|hour|day)s?", rest)
    if match is None:
        raise ValueError(f"{expression!r} is no schedule")
    period = timedelta(seconds=int(match[1]) * SECONDS[match[2]])
    return made_at + ((after - made_at) // period + 1) * period


def _following_cron(fields: str, zone: Any, after: datetime) -> datetime | None:  # noqa: ANN401 - dateutil's
    """The next time at which the zone's clocks show what fits; one that they skip is none."""
    cron = AwsCroniter(fields)
    # The library counts in UTC: it is given what the clocks show. A day more than they are moved.
    shown = (after - timedelta(days=1)).astimezone(zone).replace(tzinfo=UTC)
    while (shown := cron.get_next(shown)[0]) is not None:
        local: datetime = shown.replace(tzinfo=zone)
        if local.astimezone(UTC) > after and tz.datetime_exists(local):
            return local.astimezone(UTC)
    return None
