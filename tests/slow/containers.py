"""Docker images, and tasks that run in containers."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

from longhaul.local.processes import ProcessGroup
from longhaul.runner.task import METADATA_VARIABLE
from tests.layers import ROOT

BASE = "longhaul-python:3.13"
"""The image that `longhaul/runner/base-image.sh` makes.

It is kept, like the images built on it: Docker's cache makes the next run short.
"""

JOB = "longhaul-job:test"
LAMBDA = "longhaul-lambda:3.13"
BUILD_LIMIT_S = 1200
"""What a build may take: it fetches some 600 MB, and its machine may have other work."""


def docker(*arguments: str, stdin: str | None = None) -> str:
    """Run a command of Docker.

    Returns:
        its output.

    Raises:
        AssertionError: the command failed; the message holds the end of its output.
    """
    done = subprocess.run(
        ["docker", *arguments],  # noqa: S607 - the Docker on PATH
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, (
        f"docker {arguments[0]} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout.strip()


def why_no_containers() -> str | None:
    """The reason why no image can be built on this machine; None if one can."""
    if not succeeds("version"):
        return "no Docker engine answers"
    if not succeeds("image", "inspect", BASE) and (
        shutil.which("debootstrap") is None or os.geteuid() != 0
    ):
        script = "longhaul/runner/base-image.sh"
        return f"no image {BASE}: `sudo {script} {BASE}` makes it, with debootstrap"
    return None


def succeeds(*arguments: str) -> bool:
    """Whether there is a Docker and the command succeeds."""
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", *arguments], capture_output=True, check=False, timeout=60)  # noqa: S607 - as above
    return done.returncode == 0


def base_image() -> str:
    if not succeeds("image", "inspect", BASE):
        subprocess.run(
            [ROOT / "longhaul/runner/base-image.sh", BASE], check=True, timeout=BUILD_LIMIT_S
        )
    return BASE


def build(tag: str, *arguments: str, dockerfile: str | None = None) -> str:
    """Build an image on the base image, from a context or from the text of a Dockerfile."""
    options = [
        "--quiet",
        "--network",
        "host",
        "--tag",
        tag,
        "--build-arg",
        f"PYTHON_IMAGE={base_image()}",
    ]
    docker("build", *options, *arguments, stdin=dockerfile)
    return tag


class TaskContainer(ProcessGroup):
    """A task's command in a container of the job's image, in the place of a process group.

    As on Fargate: a read-only root with the image's volumes, an init, and the CPU and memory of the
    task.
    """

    memory_mib: int | None = None
    """The memory for a test that runs out of it; None for that of the task."""

    def __init__(
        self, command: list[str], *, cwd: Path, environment: dict[str, str], log: Path
    ) -> None:
        self._name = f"longhaul-test-{log.stem}"
        url = f"{environment[METADATA_VARIABLE]}/task"
        with urllib.request.urlopen(url, timeout=10) as metadata:  # noqa: S310 - the embedded AWS
            limits = json.load(metadata)["Limits"]
        memory = f"{self.memory_mib or limits['Memory']}m"
        cpu = ["--cpus", str(limits["CPU"])] if limits["CPU"] else []
        # The variables of the task definition, its overrides and ECS; not those of this machine.
        passed = [name for name in environment if name.startswith(("LONGHAUL_", "AWS_", "ECS_"))]
        isolation = ["--read-only", "--init", "--network", "host", "--cap-drop", "ALL"]
        size = ["--memory", memory, "--memory-swap", memory, *cpu]
        variables = [argument for name in passed for argument in ("--env", name)]
        docker_run = [
            "docker",
            "run",
            "--rm",
            "--name",
            self._name,
            *isolation,
            *size,
            *variables,
            JOB,
        ]
        engine = {name: value for name, value in os.environ.items() if name.startswith("DOCKER_")}
        super().__init__(
            [*docker_run, "python", *command[1:]],
            cwd=cwd,
            environment=environment | engine,
            log=log,
        )

    def send(self, number: signal.Signals) -> None:
        """Signal the container's init: Docker's client cannot pass on SIGKILL."""
        succeeds("kill", "--signal", number.name, self._name)
