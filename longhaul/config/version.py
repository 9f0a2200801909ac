"""The version of this checkout, or of the installed package."""

import subprocess
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final

from longhaul.config.sources import is_installed

_REPOSITORY: Final = Path(__file__).resolve().parents[2]


def version() -> str:
    if is_installed():
        return metadata.version("longhaul")
    # Not the installed metadata: a checkout of another version runs before it is installed again.
    file = _REPOSITORY / "pyproject.toml"
    return str(tomllib.loads(file.read_text("utf-8"))["project"]["version"])


def revision() -> str:
    """What another clone checks out to have this version: its tag, or else the commit.

    Without git, such as in an archive of the checkout, it is the tag that the version will have.
    """
    tag = f"v{version()}"
    if tag in _git("tag", "--points-at", "HEAD").split():
        return tag
    return _git("rev-parse", "HEAD") or tag


def _git(*arguments: str) -> str:
    """Git's answer; empty if there is none."""
    try:
        done = subprocess.run(
            ["git", "-C", str(_REPOSITORY), *arguments],  # noqa: S607 - the git on PATH
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
