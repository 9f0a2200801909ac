"""The embedded AWS with its tasks in containers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from longhaul.cli.local.aws import embedded_aws
from longhaul.cli.synth import synth
from longhaul.local import supervised
from tests.e2e.conftest import Stack
from tests.slow.containers import JOB, TaskContainer, build, why_no_containers


@pytest.fixture(scope="session")
def job_image() -> str:
    reason = why_no_containers()
    if reason is not None:
        pytest.skip(reason)
    return build(JOB, "--file", "longhaul/runner/Dockerfile", ".")


@pytest.fixture
def stack(job_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    del job_image  # only built
    monkeypatch.setattr(supervised, "ProcessGroup", TaskContainer)
    assembly = synth(tmp_path / "cdk.out")
    with embedded_aws(tmp_path) as aws:
        yield Stack(aws, aws.deploy(assembly, "Longhaul"))
