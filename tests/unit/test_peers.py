"""The parts of the benchmark beside other consumers that decide what its figures say."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.embedded_scale import lateness
from benchmarks.peers.cloud import Call, Cloud, call_of
from benchmarks.peers.measure import Extent, twice_at_once
from benchmarks.peers.pool import Pool, kill_group
from benchmarks.peers.report import picture, table
from benchmarks.peers.workers import work
from tests.local.support import eventually

SIGNED = "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/{}/aws4_request, SignedHeaders=host"


def said(*events: tuple[str, str, int, float]) -> list[dict[str, Any]]:
    return [dict(zip(("id", "event", "pid", "at"), each, strict=True)) for each in events]


@pytest.mark.parametrize(
    ("events", "killed", "found"),
    [
        ([("a", "begin", 1, 0), ("a", "end", 1, 9), ("a", "begin", 2, 10)], {}, set()),
        ([("a", "begin", 1, 0), ("a", "fail", 1, 9), ("a", "begin", 1, 10)], {}, set()),
        ([("a", "begin", 1, 0), ("b", "begin", 2, 1)], {}, set()),
        ([("a", "begin", 1, 0), ("a", "begin", 2, 5)], {1: 4.0}, set()),
        ([("a", "begin", 1, 0), ("a", "begin", 2, 3)], {1: 4.0}, {"a"}),
        ([("a", "begin", 1, 0), ("a", "begin", 2, 3), ("a", "end", 1, 9)], {}, {"a"}),
    ],
    ids=[
        "again after its end",
        "again after a failure",
        "two jobs",
        "after a kill",
        "before it",
        "at once",
    ],
)
def test_a_job_runs_twice_at_once_if_it_begins_while_another_process_works_at_it(
    events: list[tuple[str, str, int, float]], killed: dict[int, float], found: set[str]
) -> None:
    assert twice_at_once(said(*events), killed) == found


def test_the_first_attempt_fails_and_the_second_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "events"
    monkeypatch.setenv(work.EVENTS, str(file))
    body = work.Work("a", 1, first_s=2, fails=True).to_json()
    slept: list[float] = []

    with pytest.raises(work.WorkError):
        work.do(body, slept.append)
    work.do(body, slept.append)

    assert slept == [2, 1]

    assert [each["event"] for each in work.events(file)] == ["begin", "fail", "begin", "end"]
    assert {each["pid"] for each in work.events(file)} == {os.getpid()}


@pytest.mark.parametrize(
    ("service", "target", "body", "expected"),
    [
        (
            "sqs",
            "AmazonSQS.DeleteMessage",
            json.dumps({"QueueUrl": "http://x/1/jobs"}),
            ("sqs", "DeleteMessage", "jobs"),
        ),
        (
            "sqs",
            "",
            "Action=DeleteMessage&QueueUrl=http%3A%2F%2Fx%2F1%2Fjobs",
            ("sqs", "DeleteMessage", "jobs"),
        ),
        ("s3", "", "Action=mine", ("s3", "", "")),
    ],
    ids=["JSON", "query", "another service"],
)
def test_a_call_is_told_by_its_signature(
    service: str, target: str, body: str, expected: tuple[str, str, str]
) -> None:
    environ = {"HTTP_AUTHORIZATION": SIGNED.format(service), "HTTP_X_AMZ_TARGET": target}

    call = call_of(environ, body.encode())

    assert (call.service, call.operation, call.queue) == expected


def test_a_deletion_has_the_time_of_the_first_one_of_its_queue() -> None:
    cloud = Cloud(
        aws=None,  # type: ignore[arg-type]  # it is not asked
        calls=[
            Call("sqs", "DeleteMessage", "other", 1),
            Call("sqs", "ReceiveMessage", "jobs", 2),
            Call("sqs", "DeleteMessageBatch", "jobs", 3),
            Call("sqs", "DeleteMessage", "jobs", 4),
        ],
    )

    assert cloud.deleted_at("jobs") == 3
    assert cloud.deleted_at("none") is None


def test_a_killed_worker_is_started_again_and_all_end_with_the_pool(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = ["/bin/sh", "-c", f"echo $$ >> {pids}; exec sleep 600"]
    pool = Pool(command, dict(os.environ), 2, tmp_path / "log")

    def started(count: int) -> list[int] | None:
        found = [int(line) for line in pids.read_text().split()] if pids.exists() else []
        return found if len(found) == count else None

    try:
        first, second = eventually(lambda: started(2), "two workers", 60)
        kill_group(first)
        third = eventually(lambda: started(3), "a third worker", 60)[-1]
    finally:
        pool.close()

    for pid in (second, third):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_table_has_a_line_for_each_figure_and_says_never() -> None:
    figures = {
        "Longhaul": {"killed_at_20": 1.5, "twice_beyond_the_cap": None},
        "other": {"killed_at_20": None, "twice_beyond_the_cap": 180.0},
    }

    assert table(figures).splitlines() == [
        "|  | Longhaul | other |",
        "| --- | --- | --- |",
        "| SIGKILL at 20 s → next attempt, s | 1.5 | never |",
        "| beyond 12 h: runs twice at once after, s | never | 180 |",
    ]
    drawn = picture(figures, Extent(ages=(20,)))
    assert drawn.count("<rect") == 3
    assert ">1.5 s</text>" in drawn
    assert ">never</text>" in drawn


def test_a_beat_is_late_by_what_passes_the_interval_that_the_one_before_announced() -> None:
    def beat(handle: str, at: float, visibility_s: int) -> Call:
        body = {"ReceiptHandle": handle, "VisibilityTimeout": visibility_s}
        return Call("sqs", "ChangeMessageVisibility", "jobs", at, body)

    # 85 s are 1.25 times an interval of 20 s, and a margin of 60 s.
    calls = [
        beat("a", 0, 85),
        beat("b", 5, 85),
        Call("sqs", "DeleteMessage", "jobs", 6),
        beat("a", 20, 85),
        beat("b", 35, 85),
        beat("a", 70, 85),
    ]

    assert lateness(calls) == [0, 1.5, 0.5]
