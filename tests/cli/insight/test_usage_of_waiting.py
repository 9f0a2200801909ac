"""What a job costs while it waits for a slot."""

from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.cli.insight.usage import usage
from longhaul.domain.history import running as record_of
from tests.builders import NOW, running, settings


@pytest.mark.parametrize(
    ("waited_s", "looks"), [(0, 0), (5, 0), (60, 5), (3_600, 26), (36_000, 26), (864_000, 640)]
)
def test_looks_grow_with_the_wait_and_then_slowly(waited_s: int, looks: int) -> None:
    record = replace(record_of(running(claimed_at=NOW)), due_at=None)
    record = replace(record, queued_at=record.attempt.claimed_at - timedelta(seconds=waited_s))
    at_once = usage(replace(record, queued_at=record.attempt.claimed_at), None, settings(), NOW)

    used = usage(record, None, settings(), NOW)

    assert used.looks == looks
    assert used.function_calls == at_once.function_calls + looks
    assert used.queue_requests == at_once.queue_requests + 3 * looks
    assert used.read_units == at_once.read_units + 2 * looks
