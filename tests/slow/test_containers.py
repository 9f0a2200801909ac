"""Jobs in containers of the job's image, and a function in a container where `sam` is installed."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from longhaul.core.lease import State
from tests.e2e.conftest import Stack
from tests.layers import ROOT, engine_files
from tests.slow.containers import (
    BUILD_LIMIT_S,
    LAMBDA,
    TaskContainer,
    base_image,
    build,
    docker,
    why_no_containers,
)

pytestmark = pytest.mark.slow

_READY_WITHIN_S = 120
# No aggregation can spill these strings, so the heap fills.
_HOARD = "SELECT size(collect_list(repeat(CAST(id AS STRING), 200))) AS n FROM range(20000000)"


def test_image_runs_without_root_and_has_every_file_of_the_jobs(job_image: str) -> None:
    assert docker("run", "--rm", "--read-only", job_image, "id", "--user") == "10001"
    packages = ("longhaul",)
    found = set(docker("run", "--rm", job_image, "find", *packages, "-type", "f").splitlines())
    tracked = subprocess.run(
        ["git", "ls-files", *packages],  # noqa: S607 - the git on PATH
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    elsewhere = tuple(
        f"longhaul/{each}"
        for each in ("cdk/", "cli/", "client.", "config/", "local/", "operations/", "testing/")
    )
    missing = {file for file in set(tracked) - found if not file.startswith(elsewhere)}
    assert missing == engine_files("cdk", "config") | {
        "longhaul/runner/base-image.sh",
        "longhaul/runner/build-requirements.txt",
        "longhaul/runner/requirements.txt",
    }
    compiled = "longhaul/runner/__pycache__"
    assert compiled in docker("run", "--rm", job_image, "ls", "-d", compiled)


def test_image_has_an_aot_cache_that_its_jvm_uses(job_image: str) -> None:
    code = """
import pathlib, subprocess
from longhaul.runner.resources import Resources
from longhaul.runner.spark import jvm
aot = [f"-XX:AOTCache={jvm.cache_path()}", "-XX:AOTMode=on"]
*start, _ = jvm.command(Resources(2, 2048), pathlib.Path("/tmp"), aot=aot)
subprocess.run([*start, "-version"], check=True)
"""
    docker("run", "--rm", "--read-only", job_image, "python", "-c", code)


def test_job_runs_in_the_image_on_a_read_only_root_and_is_published(stack: Stack) -> None:
    stack.send(
        stack.select(
            "contained",
            "SELECT id % 3 AS rest, count(*) AS n FROM range(1000) GROUP BY 1 ORDER BY 1",
        )
    )
    row = stack.until("contained", State.SUCCEEDED)
    assert stack.rows("contained") == [
        {"rest": 0, "n": 334},
        {"rest": 1, "n": 333},
        {"rest": 2, "n": 333},
    ]
    assert (row.attempt.number, row.failures, row.interruptions) == (1, 0, 0)


def test_stopped_container_is_an_interruption_and_the_next_attempt_succeeds(
    stack: Stack,
) -> None:
    stack.send(stack.select("stopped", "SELECT 1 AS one"))
    task = stack.until_task("stopped").attempt.task_arn
    assert task is not None
    stack.client("ecs").stop_task(cluster=task.split("/")[1], task=task, reason="by hand")
    row = stack.until("stopped", State.SUCCEEDED)
    assert (row.attempt.number, row.failures, row.interruptions) == (2, 0, 1)


def test_container_that_fills_its_memory_is_out_of_memory(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Less than the heap of the size `small`, so that the kernel kills the JVM first.
    monkeypatch.setattr(TaskContainer, "memory_mib", 1200)
    stack.send(stack.select("hoard", _HOARD, max_attempts=1))
    row = stack.until("hoard", State.DEAD)
    assert row.last_class == "out_of_memory"
    assert "killed" in stack.dead_letter("hoard")["reason"]


def test_jvm_that_fills_its_heap_is_out_of_memory(stack: Stack) -> None:
    stack.send(stack.select("heap", _HOARD, max_attempts=1))
    row = stack.until("heap", State.DEAD)
    assert row.last_class == "out_of_memory"
    assert "OutOfMemoryError" in stack.dead_letter("heap")["reason"]


@pytest.fixture
def sam_work_dir(tmp_path: Path) -> Iterator[Path]:
    """The work dir of an embedded AWS that containers reach."""
    bridge = _bridge()
    if shutil.which("sam") is None:
        pytest.skip("no `sam` on PATH")
    up = [sys.executable, "-m", "longhaul.cli.cli", "up", "--host", bridge, "--port", "0"]
    folder = tmp_path / "aws"
    with subprocess.Popen(
        [*up, "--work-dir", str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as aws:
        try:
            assert aws.stdout is not None
            assert bridge in json.loads(aws.stdout.readline())["endpoint"]
            yield folder
        finally:
            aws.send_signal(signal.SIGINT)
            aws.wait(_READY_WITHIN_S)


def test_sam_invokes_the_dispatcher_with_an_event_file_against_the_embedded_aws(
    sam_work_dir: Path,
) -> None:
    build(LAMBDA, "-", dockerfile=(ROOT / "tests/slow/lambda-runtime.Dockerfile").read_text())
    response = _invoke(
        "Dispatcher",
        "events/dispatcher/new-job.json",
        *("--skip-pull-image", "--invoke-image", LAMBDA),
        *("--template", str(sam_work_dir / "cdk.out" / "Longhaul.template.json")),
        *("--env-vars", str(sam_work_dir / "sam-env.json")),
    )
    # The job was started, so its message stays.
    assert response == {
        "batchItemFailures": [{"itemIdentifier": "00000001-0000-4000-8000-000000000000"}]
    }


def test_sam_builds_the_function_of_the_size_tiny_and_invokes_it(sam_work_dir: Path) -> None:
    template_file = sam_work_dir / "cdk.out" / "Longhaul.template.json"
    template = json.loads(template_file.read_text())
    (function,) = (
        name
        for name, resource in template["Resources"].items()
        if resource.get("Properties", {}).get("PackageType") == "Image"
    )
    # The usual base is in a registry.
    arguments = template["Resources"][function]["Metadata"]["aws:asset:docker-build-args"]
    arguments["PYTHON_IMAGE"] = base_image()
    template_file.write_text(json.dumps(template))
    built = sam_work_dir / "built"
    _sam("build", "LambdaFunction", "--template", str(template_file), "--build-dir", str(built))

    response = _invoke(
        "LambdaFunction",
        "events/tiny/lease-lost.json",
        *("--template", str(built / "template.yaml")),
        *("--env-vars", str(sam_work_dir / "sam-env.json")),
    )
    assert response["errorType"] == "JobEnded"
    assert response["errorMessage"].startswith("exit code 73; ended: ")


def _bridge() -> str:
    """The address at which containers reach this machine."""
    reason = why_no_containers()
    if reason is not None:
        pytest.skip(reason)
    addresses = [
        found.address
        for found in psutil.net_if_addrs().get("docker0", [])
        if found.family == socket.AF_INET
    ]
    if not addresses:
        pytest.skip(
            "Docker runs without its bridge docker0, through which `sam local invoke` "
            "reaches the container"
        )
    return addresses[0]


def _invoke(function: str, event: str, *options: str) -> Any:
    return json.loads(_sam("local", "invoke", function, "--event", event, *options))


def _sam(*arguments: str) -> str:
    done = subprocess.run(
        ["sam", *arguments],  # noqa: S607 - the sam on PATH
        cwd=ROOT,
        env=os.environ | {"SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
