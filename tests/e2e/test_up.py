"""`longhaul up` as a user starts it."""

import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from longhaul.cli.local.address import AddressError, check_address
from longhaul.cli.place import locate
from longhaul.core.settings import VARIABLE, RuntimeSettings
from longhaul.local.credentials import aws_client
from longhaul.local.work_dir import occupied
from tests.builders import there
from tests.e2e.conftest import DEADLINE_S, LONGHAUL
from tests.layers import ROOT
from tests.local.support import eventually


def started(work_dir: Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LONGHAUL, "up", "--port", "0", "--work-dir", str(work_dir)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def said(*arguments: str) -> str:
    """What a command that refuses its arguments says."""
    done = subprocess.run(
        [*LONGHAUL, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with started(tmp_path, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def test_up_prints_one_json_line_serves_any_client_and_ends_with_all_it_started(
    up: subprocess.Popen[str], tmp_path: Path
) -> None:
    stdout = there(up.stdout)
    ready = json.loads(stdout.readline())
    assert ready["endpoint"].startswith("http://127.0.0.1:")
    expected = {
        "JobsQueueUrl",
        "DeadLetterQueueUrl",
        "LeasesTableName",
        "StateMachineArn",
        "DataBucketName",
    }
    assert expected <= ready["outputs"].keys()
    written = json.loads((tmp_path / "sam-env.json").read_text())["Parameters"][VARIABLE]
    settings = RuntimeSettings.model_validate_json(written)
    assert (settings.endpoint_url, settings.leases_table) == (
        ready["endpoint"],
        ready["outputs"]["LeasesTableName"],
    )
    aws_client("s3", endpoint=ready["endpoint"], region=ready["region"]).head_bucket(
        Bucket="longhaul-data"
    )
    sqs = aws_client("sqs", endpoint=ready["endpoint"], region=ready["region"])
    sqs.send_message(QueueUrl=ready["outputs"]["JobsQueueUrl"], MessageBody="not a job")
    (dead,) = eventually(
        lambda: sqs.receive_message(
            QueueUrl=ready["outputs"]["DeadLetterQueueUrl"],
            WaitTimeSeconds=20,
            MessageAttributeNames=["All"],
        ).get("Messages"),
        "the dead letter",
        DEADLINE_S,
    )
    assert "not valid JSON" in dead["MessageAttributes"]["longhaul"]["StringValue"]
    assert locate(None, None, {}, tmp_path).endpoint == ready["endpoint"]
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    children = psutil.Process(up.pid).children(recursive=True)
    assert children
    up.send_signal(signal.SIGINT)
    assert up.wait(DEADLINE_S) == 0
    assert stdout.read() == ""
    assert locate(None, None, {}, tmp_path).endpoint is None
    assert not (tmp_path / "up.json").exists()
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert alive == []


def test_a_port_in_use_is_refused_before_anything_is_synthesized(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refusal = said("up", "--port", port, "--work-dir", str(tmp_path))
    assert refusal == (
        f"longhaul: cannot listen on port {port} of 127.0.0.1 (Address already in use);"
        " `--port 0` picks a free one\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["work-dir.lock"]


@pytest.mark.parametrize("host", ["0.0.0.0", "8.8.8.8", "192.168.1.1", "localhost", ""])  # noqa: S104 - refused
def test_an_address_of_others_or_none_is_refused(host: str) -> None:
    with pytest.raises(
        AddressError, match=f"--host {host}: only this machine and its containers may reach it"
    ):
        check_address(host, 0)


def test_a_second_one_and_a_demo_refuse_the_folder_of_one_that_runs(tmp_path: Path) -> None:
    with occupied(tmp_path / "work"):
        for arguments in (["up", "--port", "0"], ["demo"]):
            assert said(*arguments, "--work-dir", str(tmp_path / "work")) == (
                f"longhaul: another embedded AWS (process {os.getpid()}) works in"
                f" {tmp_path / 'work'}: end that first, or name another folder with --work-dir\n"
            )


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_up_ends_at_once_and_silently_while_it_synthesizes(
    tmp_path: Path, number: signal.Signals
) -> None:
    # A group of its own, which a terminal's Ctrl-C reaches whole.
    with started(tmp_path, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert there(process.stderr).readline() == "synthesizing the stack …\n"
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out, err) == (130, "", "")
