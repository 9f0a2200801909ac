"""The runner as the container starts it: a process of its own, with a moto on loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import psutil
import pytest

from longhaul.core.lease import Lease
from longhaul.core.settings import VARIABLE, LeaseSettings
from longhaul.core.verdict import ExitCode
from longhaul.engines.fargate import runner
from longhaul.runner import task
from longhaul.runner.job_file import JOBS_VARIABLE
from longhaul.runner.stopping import Stop, StopReason
from longhaul.runner.wiring import REPORTING
from tests.builders import BUCKET, settings
from tests.local.support import eventually
from tests.patience import DEADLINE_S
from tests.runner.conftest import Cloud
from tests.runner.job_attempts import OUTPUT
from tests.servers import serving

ARN = "arn:task/1"
DESCRIPTION = json.dumps({"TaskARN": ARN, "Limits": {"CPU": 2, "Memory": 1024}}).encode()


@contextmanager
def metadata_endpoint(*errors: int) -> Iterator[str]:
    """Its URL. It answers with these status codes in turn, and then describes the task."""
    left = list(errors)

    def answer(call: BaseHTTPRequestHandler) -> None:
        status, body = (left.pop(0), b"not yet") if left else (200, DESCRIPTION)
        call.send_response(status)
        call.send_header("Content-Length", str(len(body)))
        call.end_headers()
        call.wfile.write(body)

    with serving(answer) as url:
        yield url


# Busy for hours, on one core, in one task.
ENDLESS = (
    "SELECT sum(a.id * b.id) AS x FROM range(0, 10000000, 1, 1) a CROSS JOIN range(10000000) b"
)
# One string of 1.5 GB in a heap of half a GB.
GREEDY = (
    "SELECT length(array_join(array_repeat(repeat('x', 1000000 + CAST(id AS INT)), 1500), '')) AS x"
    " FROM range(1)"
)


@pytest.fixture(scope="module")
def metadata() -> Iterator[str]:
    with metadata_endpoint() as url:
        yield url


# Imported by a Python worker too, `helper` would fail there: a worker has no session.
WITH_UDFS = """
from pyspark.sql.functions import udf
from _shared import twice

@udf("string")
def shout(text):
    return twice(helper(text))

def helper(text):
    return text.upper()

def run(spark, job):
    words = spark.createDataFrame([("a",)], "word string").coalesce(1)
    job.write(words.select(shout("word").alias("word")), format="json")
"""
SHARED = """
from pyspark.sql.functions import col, udf

LENGTH = udf(len, "int")
WORD = col("word")

def twice(text):
    return text * 2
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(moto: str, metadata: str, tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start_(lease: Lease, **more: str) -> "subprocess.Popen[str]":
        environment = os.environ | {
            VARIABLE: settings(
                lease=LeaseSettings(progress_period_s=0.2, stop_timeout_s=10)
            ).model_dump_json(),
            "LONGHAUL_KEY": lease.key,
            "LONGHAUL_RUN": str(lease.run),
            "LONGHAUL_ATTEMPT": str(lease.attempt.number),
            "ECS_CONTAINER_METADATA_URI_V4": metadata,
            "AWS_ENDPOINT_URL": moto,
            "TMPDIR": str(tmp_path),
            **more,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "longhaul.engines.fargate.runner"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start_
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stderr:
            process.stderr.close()


def computing(cloud: Cloud, process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Wait until a Spark task runs; returns the runner's child processes, the JVM among them."""

    def active() -> bool:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        return bool(cloud.lease().attempt.progress.get("stages"))

    eventually(active, "a stage is active")
    return psutil.Process(process.pid).children(recursive=True)


def gone(processes: list[psutil.Process]) -> bool:
    return all(not p.is_running() or p.status() == psutil.STATUS_ZOMBIE for p in processes)


def test_a_projects_job_may_make_udfs_while_it_is_imported(
    remote: Cloud, start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("project")
    (folder / "loud.py").write_text(WITH_UDFS)
    (folder / "_shared.py").write_text(SHARED)
    lease = remote.claim(job="loud", inputs={})
    # As the image has it: Python's workers find the jobs as the runner does.
    process = start(lease, **{JOBS_VARIABLE: str(folder), "PYTHONPATH": str(folder)})

    _, log = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == ExitCode.OK, log
    (part,) = (each for each in remote.objects(OUTPUT) if each.endswith(".json"))
    written = remote.s3.get_object(Bucket=BUCKET, Key=part)["Body"].read()
    assert written == b'{"word":"AA"}\n'
    # A line that is none would be a traceback, of what noticed the JVM's end.
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["message"] for line in lines] == [
        "ready to run",
        "the job ran",
        "output sent",
        "job done",
    ]
    assert lines[1]["rows_written"] == {".": 1}
    assert all(line["seconds"] >= 0 for line in lines)


@pytest.mark.parametrize(
    "send",
    [
        pytest.param(os.kill, id="to the runner"),
        pytest.param(os.killpg, id="to its group", marks=pytest.mark.slow),
    ],
)
def test_sigterm_stops_spark_and_records_an_interruption_in_time(
    remote: Cloud, start: Start, send: Callable[[int, int], None]
) -> None:
    process = start(remote.claim(job="sql", inputs={}, params={"query": ENDLESS}))
    children = computing(remote, process)

    send(process.pid, signal.SIGTERM)

    assert process.wait(10) == ExitCode.INTERRUPTED
    result = remote.result()
    assert (result.kind, result.error) == (
        "interrupted",
        "the platform asked the task to stop (SIGTERM)",
    )
    assert eventually(lambda: gone(children), "Spark's processes end")


@pytest.mark.slow
def test_spark_does_not_outlive_a_killed_runner_and_nothing_is_visible(
    remote: Cloud, start: Start
) -> None:
    process = start(remote.claim(job="sql", inputs={}, params={"query": ENDLESS}))
    children = computing(remote, process)
    assert any("java" in child.name() for child in children)

    process.kill()  # the runner alone, not its group

    assert process.wait(10) == -signal.SIGKILL
    assert eventually(lambda: gone(children), "Spark's processes end")
    assert remote.objects(OUTPUT) == []


@pytest.mark.slow
def test_a_jvm_out_of_memory_ends_the_runner_with_its_exit_code(
    remote: Cloud, start: Start
) -> None:
    process = start(remote.claim(job="sql", inputs={}, params={"query": GREEDY}))

    _, log = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == ExitCode.OUT_OF_MEMORY, (remote.lease().attempt.result, log)
    result = remote.result()
    assert result.kind == "out_of_memory"
    assert "OutOfMemoryError" in result.error


def test_a_report_that_fails_is_given_up_before_it_looks_like_a_stall() -> None:
    config: Any = REPORTING
    tries = config.retries["total_max_attempts"]
    longest_pause_s = 1  # of botocore's standard mode before the second try
    assert tries == 2
    assert tries * (config.connect_timeout + config.read_timeout) + longest_pause_s <= 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "kind", "error"),
    [
        (signal.SIGTERM, ExitCode.FAILED, "failed", "Spark's JVM ended with 143"),
        (signal.SIGKILL, ExitCode.OUT_OF_MEMORY, "out_of_memory", "Spark's JVM was killed"),
    ],
    ids=["told to end", "killed"],
)
def test_a_jvm_that_ends_under_a_running_job_ends_the_runner_with_its_cause(
    remote: Cloud, start: Start, number: signal.Signals, code: ExitCode, kind: str, error: str
) -> None:
    process = start(remote.claim(job="sql", inputs={}, params={"query": ENDLESS}))
    (jvm,) = (child for child in computing(remote, process) if "java" in child.name())

    jvm.send_signal(number)

    assert process.wait(20) == code
    result = remote.result()
    assert result.kind == kind
    assert result.error.startswith(error)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The endpoint takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        monkeypatch.setenv(task.METADATA_VARIABLE, f"http://127.0.0.1:{port}")
        monkeypatch.setattr(task, "_TIMEOUT_S", 0.05)
        yield


@pytest.mark.parametrize("errors", [(), (404, 500), (500, 503, 429)])
def test_a_task_that_the_agent_does_not_know_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, errors: tuple[int, ...]
) -> None:
    monkeypatch.setattr(task, "_PAUSE_S", 0.01)
    with metadata_endpoint(*errors) as url:
        monkeypatch.setenv(task.METADATA_VARIABLE, url)

        assert task.this_task(Stop()).arn == ARN


@pytest.mark.usefixtures("nobody")
def test_an_agent_that_never_answers_is_no_failure_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task, "_PATIENCE_S", 0)
    monkeypatch.setattr(runner, "stop_on_sigterm", lambda *_: None)

    assert runner.main() == ExitCode.INTERRUPTED


@pytest.mark.usefixtures("nobody")
def test_a_stop_ends_the_wait_for_the_agent() -> None:
    stop = Stop()
    stop.request(StopReason.TERMINATED, "SIGTERM")
    begun = time.monotonic()
    with pytest.raises(ConnectionError):
        task.this_task(stop)
    assert time.monotonic() - begun < task._PATIENCE_S


def test_outside_of_ecs_the_error_says_what_starts_the_runner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(task.METADATA_VARIABLE, raising=False)
    with pytest.raises(RuntimeError, match="started by ECS"):
        task.this_task(Stop())
