"""The base of the job's image: a tag may name another image tomorrow, a digest cannot."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from longhaul.cli.checks.finding import Finding, ok, warning
from longhaul.cli.checks.plan import Plan
from longhaul.cli.project import chosen

DOCKERFILE: Final = Path(__file__).resolve().parents[2] / "runner" / "Dockerfile"
_BASE: Final = re.compile(r"^ARG PYTHON_IMAGE=(\S+)$", re.MULTILINE)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def base_of(dockerfile: Path) -> str:
    """The base image that the file names."""
    match = _BASE.search(dockerfile.read_text("utf-8"))
    if match is None:
        raise ValueError(f"{dockerfile} has no line ARG PYTHON_IMAGE=…")
    return match[1]


def base_image(plan: Plan, dockerfile: Path = DOCKERFILE) -> Iterator[Finding]:
    """Whether the base that a deployment builds on is named by its digest."""
    named = plan.settings.python_image
    image = named or base_of(dockerfile)
    if _DIGEST.search(image.partition("@")[2]):
        yield ok(f"base image: {image}")
        return
    yield warning(
        f"base image: {image} has no digest, so a build next month may get another image",
        "name one with its digest in the setting python_image"
        if named or chosen()
        else "`make pin-base` asks the registry and writes it into the Dockerfile; commit that",
    )
