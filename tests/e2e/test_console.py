"""The command line, in a process of its own, against the embedded AWS with the real stack."""

import json

import pytest

from longhaul.core.lease import State
from tests.e2e.conftest import Stack


@pytest.mark.slow  # four starts of Spark; tests/cli has each command on fakes
def test_jobs_are_submitted_awaited_inspected_and_run_again(stack: Stack) -> None:
    late = f"s3://{stack.bucket}/late/numbers.jsonl"
    requests = [
        stack.select("good", "SELECT 6 * 7 AS answer"),
        stack.select("early", "SELECT sum(n) AS total FROM numbers", inputs={"numbers": late}),
    ]
    code, out, err = stack.longhaul("submit", "--wait", input="\n".join(requests))
    assert (code, sorted(out.split())) == (1, ["early", "good"]), err
    assert "good: SUCCEEDED" in err
    assert "early: DEAD: permanent:" in err

    code, out, _ = stack.longhaul("status", "--json")
    assert code == 0
    assert {record["job_id"]: record["state"] for record in map(json.loads, out.splitlines())} == {
        "good": "SUCCEEDED",
        "early": "DEAD",
    }
    assert stack.longhaul("status", "good", "--watch")[0] == 0
    assert stack.longhaul("status", "nobody")[0] == 3

    code, out, _ = stack.longhaul("logs", "good")
    assert (code, "job done" in out) == (0, True)

    code, out, _ = stack.longhaul("dlq", "list", "--class", "permanent")
    assert (code, out.split("\t")[1]) == (0, "early")
    stack.client("s3").put_object(
        Bucket=stack.bucket, Key="late/numbers.jsonl", Body=b'{"n": 1}\n{"n": 2}\n'
    )
    code, out, err = stack.longhaul("rerun", "--class", "permanent", "--yes")
    assert (code, out) == (0, "early\n"), err
    row = stack.until("early", State.SUCCEEDED)
    assert (row.attempt.number, stack.rows("early")) == (2, [{"total": 3}])
    assert stack.longhaul("dlq", "list")[1] == ""
    # The row names only the task of the last attempt: the history leads to the first one's log.
    code, out, err = stack.longhaul("logs", "early", "--attempt", "1")
    assert (code, "late/numbers.jsonl" in out or "permanent" in out) == (0, True), out + err
    code, out, err = stack.longhaul("status", "early", "--history")
    assert (code, [line.split("\t")[1] for line in out.splitlines()]) == (
        0,
        ["permanent", "succeeded"],
    ), err
    code, out, err = stack.longhaul("cost", "early", "--json")
    costs = [json.loads(line) for line in out.splitlines()]
    assert [(each["spent_on"], each["is_exact"]) for each in costs] == [
        ("failed", True),
        ("succeeded", True),
    ], err
    assert all(0 < each["task"] < each["total"] < 0.01 for each in costs)
    stack.until_quiet()


@pytest.mark.slow
def test_a_running_job_is_cancelled_and_retried(stack: Stack) -> None:
    endless = (
        "SELECT count(*) AS n FROM range(1000000) a CROSS JOIN range(1000000) b"
        " WHERE a.id * b.id = 7"
    )
    stack.send(stack.select("endless", endless))
    stack.until_task("endless")
    code, out, _ = stack.longhaul("cancel", "endless")
    assert (code, out) == (0, "endless: running: it is being stopped\n")
    code, out, err = stack.longhaul("status", "endless", "--watch")
    assert (code, "CANCELLED" in out + err) == (1, True)
    assert stack.longhaul("rerun", "endless")[:2] == (0, "endless\n")
    row = stack.until_task("endless", attempt=2)
    assert row.attempt.number == 2
    assert stack.longhaul("cancel", "endless")[0] == 0
    stack.until("endless", State.CANCELLED)
    stack.until_quiet()
