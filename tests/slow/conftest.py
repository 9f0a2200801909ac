"""The embedded AWS with its tasks in containers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local import ecs_driver
from local.cloud import EmbeddedAws
from local.synth import synth
from tests.e2e.conftest import Stack
from tests.slow.containers import JOB, TaskContainer, build, why_no_containers


@pytest.fixture(scope="session")
def job_image() -> str:
    reason = why_no_containers()
    if reason is not None:
        pytest.skip(reason)
    return build(JOB, "--file", "jobs/Dockerfile", ".")


@pytest.fixture
def stack(job_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    del job_image  # it is there, which is all that is asked of it
    monkeypatch.setattr(ecs_driver, "ProcessGroup", TaskContainer)
    assembly = synth(tmp_path / "cdk.out")
    with EmbeddedAws(work_dir=tmp_path) as aws:
        yield Stack(aws, aws.deploy(assembly, "Longhaul"))
