"""The real clock."""

from datetime import UTC, datetime

from longhaul.core.clients import SystemClock


def test_the_time_is_aware_utc_in_whole_milliseconds_as_rows_keep_it() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    times = [SystemClock().now() for _ in range(20)]
    assert {time.tzinfo for time in times} == {UTC}
    assert {time.microsecond % 1000 for time in times} == {0}
    assert before <= min(times) <= max(times) <= datetime.now(UTC)
