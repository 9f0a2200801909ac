"""`longhaul up` as a user starts it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from local.credentials import aws_client
from local.synth import REPOSITORY

# Synthesizing takes most of it.
_READY_WITHIN_S = 120
_ENDS_WITHIN_S = 30


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "console.cli", "up", "--port", "0", "--work-dir", str(tmp_path)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ)
    )
    with process:
        yield process
        process.kill()


def test_up_prints_one_json_line_serves_any_client_and_ends_with_all_it_started(up: subprocess.Popen[str]) -> None:
    assert up.stdout is not None
    ready = json.loads(up.stdout.readline())
    assert ready["endpoint"].startswith("http://127.0.0.1:")
    expected = {"JobsQueueUrl", "DeadLetterQueueUrl", "LeasesTableName", "StateMachineArn", "DataBucketName"}
    assert expected <= ready["outputs"].keys()
    sqs = aws_client("sqs", endpoint=ready["endpoint"], region=ready["region"])
    sqs.send_message(QueueUrl=ready["outputs"]["JobsQueueUrl"], MessageBody="not a job")
    answer = sqs.receive_message(
        QueueUrl=ready["outputs"]["DeadLetterQueueUrl"], WaitTimeSeconds=20, MessageAttributeNames=["All"]
    )
    assert "not valid JSON" in answer["Messages"][0]["MessageAttributes"]["longhaul"]["StringValue"]
    children = psutil.Process(up.pid).children(recursive=True)
    assert children
    up.send_signal(signal.SIGINT)
    assert up.wait(_ENDS_WITHIN_S) == 0
    assert up.stdout.read() == ""
    _, alive = psutil.wait_procs(children, timeout=_ENDS_WITHIN_S)
    assert alive == []


def test_a_port_that_is_taken_is_said_in_a_sentence(tmp_path: Path) -> None:
    with __import__("socket").socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "console.cli", "up", "--port", port, "--work-dir", str(tmp_path)]
        done = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, timeout=_READY_WITHIN_S, check=False
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert port in done.stderr
    assert "--port" in done.stderr
