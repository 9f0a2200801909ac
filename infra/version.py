"""The version of this checkout."""

import tomllib
from pathlib import Path


def version() -> str:
    # Not the installed metadata: a checkout of another version runs before it is installed again.
    file = Path(__file__).resolve().parent.parent / "pyproject.toml"
    return str(tomllib.loads(file.read_text("utf-8"))["project"]["version"])
