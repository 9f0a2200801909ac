"""Jobs through the whole system: the synthesized template, the real handlers, real Spark."""

import io
import json
import os
import re
import signal
import subprocess
import wave
from collections.abc import Iterator
from typing import Any
from urllib.request import HTTPCookieProcessor, build_opener

import boto3
import psutil
import pytest

from longhaul.client import Client, JobDeadError, SubmittedJob
from longhaul.core.lease import State
from longhaul.core.request import CreatedObject
from longhaul.core.verdict import ExitCode
from longhaul.outputs.publisher import read_manifest
from tests.builders import changed, there
from tests.e2e.conftest import DEADLINE_S, LONGHAUL, Stack
from tests.e2e.rules import queue_of_rule
from tests.events import event
from tests.layers import ROOT


@pytest.fixture(autouse=True)
def _quiet_in_the_end(stack: Stack) -> Iterator[None]:
    yield
    stack.until_quiet()


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", stack.aws.endpoint)  # as a user points boto3 at it
        yield Client(session=boto3.Session(region_name=stack.aws.region))


@pytest.fixture(scope="module")
def submitted(stack: Stack, client: Client) -> list[SubmittedJob]:
    """A job of Spark, and one that may not write where it would."""
    stack.client("s3").put_object(Bucket=stack.bucket, Key="taken/precious.csv", Body=b"1")
    jobs = (
        stack.select("plain", "SELECT 6 * 7 AS answer"),
        stack.select("taken", "SELECT 1 AS n", mode="error"),
    )
    return client.submit_many(map(json.loads, jobs))


@pytest.fixture(scope="module")
def plain(client: Client, submitted: list[SubmittedJob]) -> str:
    """The id of a job of Spark that was submitted and has ended."""
    client.result(submitted[0], timeout=DEADLINE_S)
    return submitted[0].job_id


def test_a_job_runs_is_published_and_its_message_is_gone(stack: Stack, plain: str) -> None:
    row = stack.until(plain, State.SUCCEEDED)
    assert stack.rows(plain) == [{"answer": 42}]
    assert (row.attempt.number, row.failures, row.interruptions) == (1, 0, 0)
    assert row.attempt.beats > 0
    assert stack.ended_as(row) == "SUCCEEDED"


def test_the_page_shows_what_ran_and_ends_with_ctrl_c(stack: Stack, plain: str) -> None:
    stack.until("taken", State.DEAD)
    console = subprocess.Popen(
        [*LONGHAUL, "console"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "AWS_ENDPOINT_URL": stack.aws.endpoint},
        text=True,
    )
    try:
        link = there(console.stdout).readline().strip()
        browser = build_opener(HTTPCookieProcessor())
        browser.open(link, timeout=DEADLINE_S).read()
        home = link.partition("?")[0]
        assert plain in browser.open(home, timeout=DEADLINE_S).read().decode()
        job = browser.open(f"{home}job?stage=main&id={plain}", timeout=DEADLINE_S).read().decode()
        assert "job done" in job
        assert "SELECT 6 * 7 AS answer" in job
        letters = browser.open(f"{home}dead-letters", timeout=DEADLINE_S).read().decode()
        assert "mode is error" in letters
        console.send_signal(signal.SIGINT)
        _, err = console.communicate(timeout=DEADLINE_S)
    finally:
        console.kill()
        console.wait()
    assert (console.returncode, "Traceback" in err) == (0, False), err


@pytest.mark.slow  # three starts of Spark; tests/runner/test_tables.py has one JVM for all
def test_a_job_adds_its_rows_to_a_table_and_another_replaces_a_partition(stack: Stack) -> None:
    query = "SELECT id AS n, IF(id < 2, 'a', 'b') AS p FROM range({}, {})"
    table = {"output": "table://longhaul/numbers"}
    stack.send(
        stack.select(
            "added",
            query.format(0, 4),
            params={"query": query.format(0, 4), "partition_by": ["p"]},
            mode="append",
            **table,
        )
    )
    row = stack.until("added", State.SUCCEEDED)
    assert stack.ended_as(row) == "SUCCEEDED"
    assert stack.table_rows("numbers") == [(0, "a"), (1, "a"), (2, "b"), (3, "b")]

    stack.send(stack.select("replaced", query.format(5, 7), mode="overwrite_partitions", **table))
    stack.until("replaced", State.SUCCEEDED)

    assert stack.table_rows("numbers") == [(0, "a"), (1, "a"), (5, "b"), (6, "b")]
    # By a reader that shares no code with the writer.
    asked = stack.longhaul("table", "query", "SELECT p, sum(n) FROM numbers GROUP BY p ORDER BY p")
    assert asked[:2] == (0, "a\t1\nb\t11\n")
    code, listed, _ = stack.longhaul("table", "list", "--json")
    assert (code, json.loads(listed)["current"]["rows"]) == (0, 4)

    inputs = {"numbers": "table:numbers?n > 0"}
    query = "SELECT p, count(*) AS rows, sum(n) AS total FROM numbers GROUP BY p ORDER BY p"
    stack.send(stack.select("read", query, inputs=inputs, output="table:totals"))
    stack.until("read", State.SUCCEEDED)
    assert stack.table_rows("totals") == [("a", 1, 1), ("b", 2, 11)]


@pytest.mark.slow  # tests/local has such events without a job
def test_a_new_object_starts_a_job_whatever_its_key_holds_and_only_once(stack: Stack) -> None:
    sound = io.BytesIO()
    with wave.open(sound, "wb") as audio:
        audio.setparams((1, 2, 8_000, 0, "NONE", ""))
        audio.writeframes(bytes(16_000))
    key, s3 = 'incoming/Ann\'s "call" [1]+ü.wav', stack.client("s3")
    for _ in range(2):
        etag = s3.put_object(Bucket=stack.bucket, Key=key, Body=sound.getvalue())["ETag"]

    made = CreatedObject.model_validate(
        {"bucket": {"name": stack.bucket}, "object": {"key": key, "etag": etag.strip('"')}}
    )
    row = stack.until(made.id, State.SUCCEEDED)

    assert row.attempt.number == 1
    manifest = there(read_manifest(s3, stack.bucket, f"previews/{made.id}/")[0])
    assert manifest.rows == {".": 1}
    assert len(manifest.of_dataset("previews")) == 1


@pytest.mark.slow  # as above
def test_an_end_is_an_event_that_a_rule_passes_on(stack: Stack) -> None:
    sqs = stack.client("sqs")
    url = queue_of_rule(stack, "ended", {"detail": {"job_id": ["told", "never"]}})

    stack.send(stack.select("told", "SELECT 1 AS one"))
    stack.send(json.dumps({"job": "nope", "job_id": "never", "output": f"s3://{stack.bucket}/n/"}))

    def told() -> dict[str, Any]:
        """The last event about each job."""
        got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        found.update({each["job_id"]: each for each in map(_detail, got)})
        return found if len(found) == 2 else {}

    found: dict[str, Any] = {}
    ended = stack.wait_for(told, "two events")

    assert (ended["told"]["outcome"], ended["never"]["outcome"]) == ("SUCCEEDED", "DEAD")
    assert ended["told"]["output"] == f"s3://{stack.bucket}/told/"
    assert ended["never"]["class"] == "invalid_request"


def _detail(message: Any) -> Any:
    event = json.loads(message["Body"])
    assert event["detail-type"] == "Longhaul Job Ended"
    return event["detail"]


@pytest.mark.slow
def test_a_job_that_can_never_succeed_is_dead_lettered_at_once_and_a_correction_runs(
    stack: Stack,
) -> None:
    stack.send(stack.select("corrected", "DROP TABLE flights"))
    row = stack.until("corrected", State.DEAD)
    letter = stack.dead_letter("DROP TABLE")
    assert (row.attempt.number, letter["class"], letter["key"]) == (
        1,
        "permanent",
        "main#corrected",
    )
    assert "only one SELECT" in letter["reason"]
    stack.send(stack.select("corrected", "SELECT 'flights' AS name"))
    row = stack.until("corrected", State.SUCCEEDED)
    assert (row.attempt.number, row.failures) == (2, 0)
    assert stack.rows("corrected") == [{"name": "flights"}]


@pytest.mark.slow
def test_a_job_that_fails_each_time_is_dead_lettered_after_its_last_attempt(stack: Stack) -> None:
    stack.send(
        stack.select("poison", "SELECT raise_error('no luck today') AS never", max_attempts=2)
    )
    row = stack.until("poison", State.DEAD)
    letter = stack.dead_letter("no luck today")
    assert (row.attempt.number, row.failures, letter["class"], letter["attempts"]) == (
        2,
        2,
        "failed",
        2,
    )
    assert letter["reason"].startswith("[USER_RAISED_EXCEPTION] no luck today")


@pytest.mark.slow
def test_a_job_that_overruns_its_timeout_is_stopped(stack: Stack) -> None:
    endless = (
        "SELECT count(*) AS n FROM range(1000000) a CROSS JOIN range(1000000) b"
        " WHERE a.id * b.id = 7"
    )
    stack.send(stack.select("overrun", endless, timeout="12s", max_attempts=1))
    row = stack.until("overrun", State.DEAD)
    assert (row.last_class, row.attempt.number) == ("timed_out", 1)
    stack.wait_for(lambda: stack.process_group_of("overrun") is None, "the task to be stopped")


@pytest.mark.slow
def test_a_jvm_that_hangs_as_it_boots_is_stopped_and_does_not_count_against_the_job(
    stack: Stack,
) -> None:
    stack.send(stack.select("stalls", "SELECT 1 AS one", stall_timeout="10s"))
    stack.until_task("stalls")
    stack.wait_for(lambda: jvm_of(stack, "stalls"), "the JVM to start").suspend()
    row = stack.until("stalls", State.RELEASED)
    assert (row.last_class, row.failures, row.interruptions) == ("interrupted", 0, 1)
    assert "no progress for" in str(row.last_error)
    row = stack.until("stalls", State.SUCCEEDED)
    assert (row.attempt.number, row.failures) == (2, 0)
    assert stack.rows("stalls") == [{"one": 1}]
    assert stack.ended_as(changed(row, attempt=1)) == "RELEASED"


@pytest.mark.slow
def test_a_job_whose_jvm_hangs_is_stopped_as_stalled_and_succeeds_at_the_second_attempt(
    stack: Stack,
) -> None:
    seconds_of_work = (
        "SELECT count(*) AS n FROM range(15000) a CROSS JOIN range(15000) b WHERE a.id * b.id = 7"
    )
    stack.send(stack.select("hangs", seconds_of_work, stall_timeout="10s"))
    stack.until_progress("hangs", "running")
    there(jvm_of(stack, "hangs")).suspend()
    row = stack.until("hangs", State.RELEASED)
    assert (row.last_class, row.failures, row.interruptions) == ("stalled", 1, 0)
    assert "no progress for" in str(row.last_error)
    row = stack.until("hangs", State.SUCCEEDED)
    assert (row.attempt.number, row.failures) == (2, 1)
    assert stack.rows("hangs") == [{"n": 2}]
    assert stack.ended_as(changed(row, attempt=1)) == "RELEASED"


def jvm_of(stack: Stack, job_id: str) -> psutil.Process | None:
    group = stack.process_group_of(job_id)
    children = psutil.Process(group).children(recursive=True) if group else []
    return next((child for child in children if child.name() == "java"), None)


def test_an_invalid_body_never_starts_and_says_why(stack: Stack) -> None:
    stack.send(
        json.dumps(
            {"job": "sql", "job_id": "invalid", "output": "s3://elsewhere/x/", "nonsense": True}
        )
    )
    assert stack.dead_letter('"nonsense"')["class"] == "invalid_request"
    row = stack.wait_for(lambda: stack.row("invalid"), "its row")
    assert row.is_refused


@pytest.mark.slow  # tests/runner/test_own_jobs.py runs scripts in one JVM
def test_an_ordinary_script_that_the_message_names_runs_on_the_stack(stack: Stack) -> None:
    page = (ROOT / "docs" / "jobs.md").read_text()
    (script,) = re.findall(
        r"^```python\n(# s3://my-data/jobs/by_carrier.py\n.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    s3 = stack.client("s3")
    s3.put_object(Bucket=stack.bucket, Key="jobs/by_carrier.py", Body=script.encode())
    s3.put_object(Bucket=stack.bucket, Key="script-in/flights.csv", Body=b"carrier\nUA\nAA\nUA\n")
    request = {
        "job": f"s3://{stack.bucket}/jobs/by_carrier.py",
        "job_id": "script",
        "inputs": {"flights": f"s3://{stack.bucket}/script-in/"},
        "output": f"s3://{stack.bucket}/script/",
        "params": {"argv": ["{inputs.flights}", "{output}"]},
    }
    stack.send(json.dumps(request))
    stack.until("script", State.SUCCEEDED)
    assert stack.rows("script") == [{"carrier": "AA", "count": 1}, {"carrier": "UA", "count": 2}]


@pytest.mark.slow  # tests/contract/test_outputs_beside.py kills it at each call
def test_a_job_writes_a_table_and_a_prefix_beside_it(stack: Stack) -> None:
    code = (
        "def run(spark, job):\n"
        "    rows = spark.range(3).withColumnRenamed('id', 'n')\n"
        "    job.write(rows)\n"
        "    job.write(rows.selectExpr('count(*) AS rows'), output='report', format='json')\n"
    )
    stack.client("s3").put_object(Bucket=stack.bucket, Key="jobs/daily.py", Body=code.encode())
    request = {
        "job": f"s3://{stack.bucket}/jobs/daily.py",
        "job_id": "daily",
        "output": "table://longhaul/daily",
        "outputs": {"report": "data:daily-report/"},
        "mode": "append",
    }
    stack.send(json.dumps(request))
    row = stack.until("daily", State.SUCCEEDED)

    assert stack.table_rows("daily") == [(0,), (1,), (2,)]
    assert stack.rows("daily-report") == [{"rows": 3}]
    assert there(row.results).rows == {".": 3, "outputs.report": 1}
    for place in ("table://longhaul/daily", f"s3://{stack.bucket}/daily-report/"):
        exit_code, shown, _ = stack.longhaul("lineage", place)
        assert (exit_code, "by daily of main" in shown) == (0, True)
    _, status, _ = stack.longhaul("status", "daily", "--json")
    assert json.loads(status)["outputs"] == {"report": f"s3://{stack.bucket}/daily-report/"}


@pytest.mark.slow
def test_two_jobs_that_append_to_one_output_at_once_lose_no_row(stack: Stack) -> None:
    output = f"s3://{stack.bucket}/appended/"
    for n in (1, 2):
        stack.send(stack.select(f"append-{n}", f"SELECT {n} AS n", output=output, mode="append"))
    for n in (1, 2):
        stack.until(f"append-{n}", State.SUCCEEDED)
    assert sorted(row["n"] for row in stack.rows("appended")) == [1, 2]


def test_a_program_submits_jobs_waits_for_them_and_reads_their_output(
    stack: Stack, client: Client, submitted: list[SubmittedJob]
) -> None:
    good, bad = submitted

    result = client.result(good, timeout=DEADLINE_S)

    assert (result.output, result.status.attempt) == (f"s3://{stack.bucket}/plain/", 1)
    s3 = stack.client("s3")
    rows = []
    for file in result.files:
        bucket, _, key = file.url.removeprefix("s3://").partition("/")
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        assert len(body) == file.size
        rows += [json.loads(line) for line in body.splitlines()]
    assert rows == [{"answer": 42}]
    with pytest.raises(JobDeadError, match="mode is error") as dead:
        client.result(bad.job_id, timeout=DEADLINE_S)
    assert (dead.value.status.kind, dead.value.status.attempt) == ("permanent", 1)
    assert "mode is error" in stack.dead_letter('"taken"')["reason"]
    assert client.cancel(good).state == "SUCCEEDED"


def test_an_event_of_a_lost_lease_starts_no_tiny_job(stack: Stack) -> None:
    answer = stack.invoke("tiny", event("tiny", "lease-lost"))
    assert answer["errorType"] == "JobEnded"
    assert answer["errorMessage"].startswith(f"exit code {ExitCode.SUPERSEDED}; ended: ")
    assert "flights-2013-01" not in json.dumps(answer)
