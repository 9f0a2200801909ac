"""What single fields of a row say: the request before the stage, and one time before another."""

from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.core.claim import cancelled_before_claim, new_run
from longhaul.core.dead_letter import reason_of
from longhaul.core.places import DataPath
from longhaul.core.request import JobRequest
from longhaul.core.settings import LeaseSettings
from longhaul.core.verdict import MAX_ERROR_CHARS, shorten
from tests.builders import BODY, NOW, changed, message, running, stage

GRACE = timedelta(seconds=60)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({"engine": "emr-serverless"}, ("emr-serverless", "small", 3)),
        ({"size": "large"}, ("fargate", "large", 3)),
        ({"max_attempts": 2}, ("fargate", "small", 2)),
    ],
)
def test_what_a_request_asks_for_comes_before_what_its_stage_says(
    asked: dict[str, object], given: tuple[str, str, int]
) -> None:
    asks = message(request=JobRequest.model_validate({**BODY, **asked}))
    row = new_run(None, asks, stage(), LeaseSettings(), NOW)

    assert (row.input.engine, row.input.size, row.max_attempts) == given


def test_lease_is_overdue_after_its_expiry_and_not_before() -> None:
    held = changed(running(), lease_expires_at=NOW + timedelta(hours=1))

    assert not held.is_overdue(NOW + timedelta(hours=1), GRACE)
    assert held.is_overdue(NOW + timedelta(hours=1, seconds=61), GRACE)


def test_lease_without_an_expiry_is_overdue_by_its_claim() -> None:
    claimed = changed(running(), lease_expires_at=None)

    assert not claimed.is_overdue(NOW + timedelta(seconds=59), GRACE)
    assert claimed.is_overdue(NOW + timedelta(seconds=61), GRACE)


def test_mark_before_a_claim_has_a_run_of_its_own_time() -> None:
    assert cancelled_before_claim("main#a", "main", NOW).run == round(NOW.timestamp() * 1000)


def test_dead_letter_says_when_its_job_was_first_sent() -> None:
    row = changed(running(), first_sent_at=NOW - timedelta(days=3))

    assert reason_of(row, "arn", None).first_sent == "2025-12-30T03:04:05+00:00"
    unknown = replace(row, receive=replace(row.receive, first_sent_at=None))
    assert reason_of(unknown, "arn", None).first_sent is None


def test_error_text_is_cut_only_beyond_its_limit() -> None:
    assert shorten("x" * MAX_ERROR_CHARS) == "x" * MAX_ERROR_CHARS
    shown = shorten("x" * (MAX_ERROR_CHARS + 1))
    kept = shown.count("x")
    assert shown == f"{'x' * kept}… (and {MAX_ERROR_CHARS + 1 - kept} more characters)"
    assert MAX_ERROR_CHARS - 3 <= len(shown) <= MAX_ERROR_CHARS


def test_path_on_disk_is_told_from_one_on_s3() -> None:
    assert DataPath.of("file:/data/a.csv") == DataPath("file", "", "/data/a.csv")
    assert DataPath.of("s3://bucket/a.csv") == DataPath("s3", "bucket", "a.csv")
