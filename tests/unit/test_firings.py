"""When schedules fire, and from when on firings count as missed."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from longhaul.domain.firings import CaughtUp, DeployedSchedule, missed_since

MADE = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WEEK = timedelta(days=7)


def schedule(expression: str = "cron(30 2 * * ? *)", timezone: str = "UTC") -> DeployedSchedule:
    return DeployedSchedule(
        arn="arn:aws:scheduler:us-east-1:123456789012:schedule/default/Longhaul-main",
        expression=expression,
        timezone=timezone,
        is_enabled=True,
        created_at=MADE,
        changed_at=MADE,
        template='{"job_id": "scheduled/<aws.scheduler.scheduled-time>", "output": "s3://x/'
        '<aws.scheduler.scheduled-time>/", "tags": {"by": "<aws.scheduler.schedule-arn>"}}',
    )


def times(of: DeployedSchedule, after: str, until: str) -> list[str]:
    begin, end = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (after, until))
    return [f"{at:%Y-%m-%d %H:%M}" for at in of.firings(begin, end)]


def test_firings_are_after_the_begin_and_up_to_the_end() -> None:
    daily = schedule()
    assert times(daily, "2026-03-01 02:30", "2026-03-03 02:30") == [
        "2026-03-02 02:30",
        "2026-03-03 02:30",
    ]
    assert times(daily, "2026-03-01 02:30", "2026-03-02 02:29") == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cron(0 6 ? * MON-FRI *)", ["2026-05-29 06:00", "2026-06-01 06:00", "2026-06-02 06:00"]),
        ("cron(0 6 L * ? *)", ["2026-05-31 06:00"]),
        ("cron(0 6 ? * 2#1 *)", ["2026-06-01 06:00"]),
        ("cron(0 6 1W * ? *)", ["2026-06-01 06:00"]),
        ("cron(0 0/12 1 6 ? 2026)", ["2026-06-01 00:00", "2026-06-01 12:00"]),
    ],
)
def test_cron_is_read_as_aws_reads_it(expression: str, expected: list[str]) -> None:
    assert times(schedule(expression), "2026-05-28 12:00", "2026-06-02 12:00") == expected


def test_a_time_that_clocks_skip_is_no_firing() -> None:
    berlin = schedule(timezone="Europe/Berlin")  # 2026-03-29: 02:00 is followed by 03:00
    assert times(berlin, "2026-03-28 00:00", "2026-03-30 12:00") == [
        "2026-03-28 01:30",
        "2026-03-30 00:30",
    ]


def test_a_time_that_comes_twice_is_one_firing() -> None:
    berlin = schedule(timezone="Europe/Berlin")  # 2026-10-25: 03:00 is followed by 02:00
    assert times(berlin, "2026-10-24 12:00", "2026-10-26 12:00") == [
        "2026-10-25 00:30",
        "2026-10-26 01:30",
    ]


def test_a_schedule_of_each_minute_is_read_no_further_than_asked() -> None:
    each_minute = schedule("cron(* * * * ? *)").firings(NOW - WEEK, NOW)
    assert len(list(islice(each_minute, 3))) == 3


def test_a_firings_message_is_the_one_that_scheduler_sends() -> None:
    daily = schedule()
    at = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
    assert daily.job_id(at) == "scheduled/2026-03-02T02:30:00Z"
    assert daily.body(at) == (
        '{"job_id": "scheduled/2026-03-02T02:30:00Z", "output": "s3://x/2026-03-02T02:30:00Z/", '
        f'"tags": {{"by": "{daily.arn}"}}}}'
    )


@pytest.mark.parametrize(
    ("expression", "timezone"), [("rate(5 minutes)", "UTC"), ("cron(0 2 * * ? *)", "Bonn")]
)
def test_what_has_no_known_times_is_refused(expression: str, timezone: str) -> None:
    with pytest.raises(ValueError, match=r"no cron expression|no time zone"):
        list(schedule(expression, timezone).firings(NOW - WEEK, NOW))


def test_nothing_was_missed_before_the_schedule_was_made() -> None:
    made = NOW - timedelta(hours=3)
    new = DeployedSchedule(**{**vars(schedule()), "created_at": made, "changed_at": made})
    assert missed_since(new, None, now=NOW, within=WEEK) == made


def test_before_the_first_look_nothing_was_missed_by_times_that_may_be_new() -> None:
    changed_at = NOW - timedelta(hours=2)
    moved = DeployedSchedule(**{**vars(schedule("cron(0 * * * ? *)")), "changed_at": changed_at})
    assert missed_since(moved, None, now=NOW, within=WEEK) == changed_at


def test_no_more_is_missed_than_the_setting_says() -> None:
    assert missed_since(schedule(), None, now=NOW, within=WEEK) == NOW - WEEK
    before = CaughtUp(NOW - timedelta(days=60), schedule().plan)
    assert missed_since(schedule(), before, now=NOW, within=WEEK) == NOW - WEEK


def test_what_was_looked_at_is_not_looked_at_again() -> None:
    before = CaughtUp(NOW - timedelta(hours=1), schedule().plan)
    assert missed_since(schedule(), before, now=NOW, within=WEEK) == before.until


def test_a_disabled_schedule_has_missed_what_it_would_have_sent() -> None:
    enabled_now = DeployedSchedule(**{**vars(schedule()), "changed_at": NOW})
    before = CaughtUp(NOW - timedelta(days=3), enabled_now.plan)
    assert missed_since(enabled_now, before, now=NOW, within=WEEK) == before.until


def test_the_times_of_a_new_plan_are_none_of_the_time_before_it() -> None:
    changed_at = NOW - timedelta(hours=2)
    moved = DeployedSchedule(**{**vars(schedule("cron(0 5 * * ? *)")), "changed_at": changed_at})
    before = CaughtUp(NOW - timedelta(days=3), schedule().plan)
    assert missed_since(moved, before, now=NOW, within=WEEK) == changed_at
