"""The version of this checkout, or of the installed package."""

import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final

from longhaul.config.sources import DISTRIBUTION, is_installed

_PROJECT: Final = Path(__file__).resolve().parents[2] / "pyproject.toml"


def version() -> str:
    if is_installed():
        return metadata.version(DISTRIBUTION)
    # Not the installed metadata: a checkout of another version runs before it is installed again.
    return str(tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["version"])
