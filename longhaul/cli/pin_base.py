"""Pins the base of the job's image to its digest: `make pin-base`.

A tag may name another image tomorrow, a digest cannot. This machine's Docker asks the registry, and
the answer is written into `longhaul/runner/Dockerfile`, where every build reads it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from longhaul.cli.checks.docker import run
from longhaul.cli.checks.finding import Finding, ok, warning
from longhaul.cli.project import chosen

DOCKERFILE: Final = Path(__file__).resolve().parents[1] / "runner" / "Dockerfile"
_BASE: Final = re.compile(r"^ARG PYTHON_IMAGE=(\S+)$", re.MULTILINE)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def base_of(dockerfile: Path) -> str:
    """The base image that the file names."""
    match = _BASE.search(dockerfile.read_text("utf-8"))
    if match is None:
        raise ValueError(f"{dockerfile} has no line ARG PYTHON_IMAGE=…")
    return match[1]


def pin(dockerfile: Path, ask: Callable[[Sequence[str]], str]) -> str:
    """Write the digest behind the tag that the file names; returns the image.

    Of all architectures: the digest is that of the list of images, as the registry has it.

    Args:
        dockerfile: to read and to write.
        ask: runs a command, and returns what it wrote on stdout.

    Raises:
        ValueError: the answer is no digest.
    """
    image = base_of(dockerfile).partition("@")[0]
    docker = os.environ.get("CDK_DOCKER", "docker")
    command = [docker, "buildx", "imagetools", "inspect", image]
    digest = ask([*command, "--format", "{{.Manifest.Digest}}"]).strip()
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"the registry's answer for {image} is no digest: {digest[:100]!r}")
    pinned = f"{image}@{digest}"
    text = dockerfile.read_text("utf-8")
    dockerfile.write_text(_BASE.sub(f"ARG PYTHON_IMAGE={pinned}", text, count=1), "utf-8")
    return pinned


def check(python_image: str | None, dockerfile: Path = DOCKERFILE) -> Iterator[Finding]:
    """Whether the base that a deployment builds on is named by its digest."""
    image = python_image or base_of(dockerfile)
    if _DIGEST.search(image.partition("@")[2]):
        yield ok(f"base image: {image}")
        return
    yield warning(
        f"base image: {image} has no digest, so a build next month may get another image",
        "name one with its digest in the setting python_image"
        if python_image or chosen()
        else "`make pin-base` asks the registry and writes it into the Dockerfile; commit that",
    )


def main() -> int:
    try:
        pinned = pin(DOCKERFILE, run)
    except OSError as error:
        sys.stderr.write(f"no Docker here that could ask: {error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"the registry was not asked: {(error.stderr or '').strip()}\n")
        return 1
    except (ValueError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"written to longhaul/runner/Dockerfile: {pinned}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
