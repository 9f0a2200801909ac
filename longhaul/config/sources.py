"""Where Longhaul's own files are: what assets are made of, and what the CDK and Docker read.

In a checkout that is its root. An installed package has them in site-packages, among the files of
all others. So they are laid out once as in a checkout, in a folder of the user: assets of both have
the same bytes, and what runs there sees a checkout.

    sources()/longhaul  functions  cdk.json  .dockerignore  .cache

Folders of earlier builds stay until somebody deletes them.
"""

import hashlib
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]
DISTRIBUTION: Final = "longhaul-jobs"
"""What pip installs: the index has another project's `longhaul`."""

SHIPPED: Final = "_sources"
"""Folder of the package, in a wheel alone: what lies beside the package in a checkout."""


def is_installed() -> bool:
    """Whether this is a package without a checkout."""
    return (_PACKAGE / SHIPPED).is_dir()


@cache
def sources() -> Path:
    """The root of the checkout, or of what is laid out like one."""
    if not is_installed():
        return _PACKAGE.parent
    record = metadata.distribution(DISTRIBUTION).read_text("RECORD") or ""
    # Another name for each build and each environment: the record has the hashes of all files.
    name = hashlib.sha256(record.encode()).hexdigest()[:12]
    return cached(_user_folder() / "sources", name, _lay_out)


def cached(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """What takes long to make, and is kept: what `make` writes at the path that it gets.

    The path is the only one in a scratch folder of its own, and what is there is made once, also
    when several processes want it at once.
    """
    target = folder / name
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as scratch:
        built = Path(scratch) / name
        make(built)
        try:
            built.rename(target)
        except OSError:
            # Renaming onto a non-empty folder fails: another process made the same before.
            if not target.exists():
                raise
    return target


def work_dir() -> Path:
    """Where the embedded AWS works for a command that has no project."""
    return (_user_folder() if is_installed() else _PACKAGE.parent) / ".longhaul"


def _user_folder() -> Path:
    usual = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(usual) / "longhaul"


def _lay_out(folder: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", SHIPPED)
    shutil.copytree(_PACKAGE, folder / _PACKAGE.name, ignore=ignored)
    shutil.copytree(_PACKAGE / SHIPPED, folder, dirs_exist_ok=True, ignore=ignored)


def version() -> str:
    """Of this checkout, or of the installed package."""
    if is_installed():
        return metadata.version(DISTRIBUTION)
    # Not the installed metadata: a checkout of another version runs before it is installed again.
    project = tomllib.loads((_PACKAGE.parent / "pyproject.toml").read_text("utf-8"))
    return str(project["project"]["version"])
