"""The version of this checkout, or of the installed package."""

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
