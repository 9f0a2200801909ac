"""Docker, which builds the job's image on the machine that deploys."""

import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from typing import Final

from longhaul.cli.checks.finding import Finding, ok, problem, warning
from longhaul.cli.checks.plan import Plan
from longhaul.cli.synth import ARCHITECTURES
from longhaul.settings import Architecture

# As Docker writes them.
PLATFORMS: Final[dict[Architecture, str]] = {"arm64": "linux/arm64", "x86_64": "linux/amd64"}
_OTHER: Final[dict[Architecture, Architecture]] = {"arm64": "x86_64", "x86_64": "arm64"}
_LIMIT_S: Final = 60


def run(command: Sequence[str]) -> str:
    """Run the command; returns what it wrote on stdout.

    Raises:
        OSError: there is no such program.
        subprocess.SubprocessError: it failed, or took too long.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    return done.stdout


def image(plan: Plan) -> Iterator[Finding]:
    """Whether Docker runs here and can build an image of the settings' architecture."""
    # The CDK CLI uses the same variable.
    docker = os.environ.get("CDK_DOCKER", "docker")
    try:
        version = run([docker, "version", "--format", "{{.Server.Version}}"]).strip()
    except OSError:
        yield problem(
            f"docker: there is no {docker} here, and the job's image must be built",
            "install Docker, or name another builder: CDK_DOCKER=finch or CDK_DOCKER=podman; "
            "or deploy from a machine that has one",
        )
        return
    except subprocess.SubprocessError as error:
        yield problem(
            f"docker: {docker} does not answer: {_error_text(error)}",
            "start it (`sudo systemctl start docker`, or Docker Desktop); on Linux your user "
            "must be in the group `docker`",
        )
        return
    yield ok(f"docker: {docker} {version}")
    yield _built(docker, plan.settings.architecture)


def _built(docker: str, architecture: Architecture) -> Finding:
    wanted = PLATFORMS[architecture]
    here = ARCHITECTURES.get(platform.machine())
    if here == architecture:
        return ok(f"image: {wanted} is built natively")
    try:
        builder = run([docker, "buildx", "inspect", "--bootstrap"])
    except (OSError, subprocess.SubprocessError):
        return warning(
            f"image: is for {wanted}, this machine is {platform.machine()}, and {docker} does not "
            "say what it can emulate; without emulation the build ends with `exec format error`",
            f"install buildx to see; or set architecture to {_OTHER[architecture]}",
        )
    if wanted in builder:
        return warning(
            f"image: is for {wanted} and built under emulation on {platform.machine()}: slow, and "
            "the AOT training may fail. Then the build says THE IMAGE HAS NO AOT CACHE, and the "
            "image is right, but its jobs start more slowly",
            f"nothing need be done; a machine of that architecture, or the setting architecture "
            f"{_OTHER[architecture]}, avoids it",
        )
    return problem(
        f"image: is for {wanted}, and {docker} on this machine ({platform.machine()}) cannot "
        "build that: the first RUN would end with `exec format error`",
        "install emulation (`docker run --privileged --rm tonistiigi/binfmt --install "
        f"{wanted.removeprefix('linux/')}`), deploy from a machine of that architecture, or set "
        f"architecture to {_OTHER[architecture]}",
    )


def _error_text(error: subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return (error.stderr or error.stdout or "").strip() or f"exit code {error.returncode}"
    return str(error)
