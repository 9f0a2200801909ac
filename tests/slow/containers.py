"""Docker, and tasks that run in it: for the tests of this folder."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

from jobs.task import METADATA_VARIABLE
from local.processes import ProcessGroup
from local.synth import REPOSITORY

BASE = "longhaul-python:3.13"
"""What `jobs/base-image.sh` makes. Made once, and kept like the images built on it: Docker's cache is what makes the next run short."""

JOB = "longhaul-job:test"
LAMBDA = "longhaul-lambda:3.13"
_BUILD_LIMIT_S = 1200


def docker(*arguments: str, stdin: str | None = None) -> str:
    """What the command printed.

    Raises:
        AssertionError: it failed; the message is its last words.
    """
    done = subprocess.run(
        ["docker", *arguments],  # noqa: S607 - whichever Docker the developer has
        cwd=REPOSITORY,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_BUILD_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"docker {arguments[0]} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout.strip()


def why_no_containers() -> str | None:
    """The reason why no image can be built here, if there is one."""
    if not answers("version"):
        return "no Docker engine answers"
    if not answers("image", "inspect", BASE) and (shutil.which("debootstrap") is None or os.geteuid() != 0):
        return f"no image {BASE}: `sudo jobs/base-image.sh {BASE}` makes it, with debootstrap"
    return None


def answers(*arguments: str) -> bool:
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", *arguments], capture_output=True, check=False, timeout=60)  # noqa: S607 - as above
    return done.returncode == 0


def base_image() -> str:
    if not answers("image", "inspect", BASE):
        subprocess.run([REPOSITORY / "jobs" / "base-image.sh", BASE], check=True, timeout=_BUILD_LIMIT_S)
    return BASE


def build(tag: str, *arguments: str, dockerfile: str | None = None) -> str:
    """Build on the base image; without a context when the text of a Dockerfile is given."""
    options = ["--quiet", "--network", "host", "--tag", tag, "--build-arg", f"PYTHON_IMAGE={base_image()}"]
    docker("build", *options, *arguments, stdin=dockerfile)
    return tag


class TaskContainer(ProcessGroup):
    """In the place of `local.ecs_driver.ProcessGroup`: a task's command in the job's image, as Fargate runs it by the task definition.

    Read-only root, the image's volumes as the only room to write, an init, the CPU and memory of the task's size.
    """

    memory_mib: int | None = None
    """Less memory than the size promises, for a test that runs out of it."""

    def __init__(self, command: list[str], *, cwd: Path, environment: dict[str, str], log: Path) -> None:
        self._name = f"longhaul-test-{log.stem}"
        with urllib.request.urlopen(f"{environment[METADATA_VARIABLE]}/task", timeout=10) as answer:  # noqa: S310 - the embedded AWS
            limits = json.load(answer)["Limits"]
        memory = f"{self.memory_mib or limits['Memory']}m"
        cpu = ["--cpus", str(limits["CPU"])] if limits["CPU"] else []
        # What the task definition, its overrides and ECS put there; not what a local process needs of this machine.
        passed = [name for name in environment if name.startswith(("LONGHAUL_", "AWS_", "ECS_"))]
        isolation = ["--read-only", "--init", "--network", "host", "--cap-drop", "ALL"]
        size = ["--memory", memory, "--memory-swap", memory, *cpu]
        variables = [argument for name in passed for argument in ("--env", name)]
        docker_run = ["docker", "run", "--rm", "--name", self._name, *isolation, *size, *variables, JOB]
        engine = {name: value for name, value in os.environ.items() if name.startswith("DOCKER_")}
        super().__init__([*docker_run, "python", *command[1:]], cwd=cwd, environment=environment | engine, log=log)

    def send(self, number: signal.Signals) -> None:
        """To the container's init: the client of Docker cannot hand on SIGKILL."""
        answers("kill", "--signal", number.name, self._name)
