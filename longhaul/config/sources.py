"""Where Longhaul's own files are: what assets are made of, and what the CDK and Docker read.

In a checkout that is its root. An installed package has them in site-packages, among the files of
all others. So they are laid out once as in a checkout, in a folder of the user: assets of both have
the same bytes, and what runs there sees a checkout.

    sources()/longhaul  functions  cdk.json  .dockerignore  .cache

Beside such a folder a file `<name>.installed` says whose it is. A new one removes those of
installations that are gone, unless a process still works there.
"""

import fcntl
import hashlib
import os
import re
import shutil
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Final, TextIO

from longhaul.config.cache import cached

_PACKAGE: Final = Path(__file__).resolve().parents[1]
SHIPPED: Final = "_sources"
"""Folder of the package, in a wheel alone: what lies beside the package in a checkout."""
_NAME: Final = re.compile(r"[0-9a-f]{12}")
_OWNER: Final = ".installed"
# Open until the process ends, and so locked.
_HELD: Final[list[TextIO]] = []


def is_installed() -> bool:
    """Whether this is a package without a checkout."""
    return (_PACKAGE / SHIPPED).is_dir()


@cache
def sources() -> Path:
    """The root of the checkout, or of what is laid out like one."""
    if not is_installed():
        return _PACKAGE.parent
    record = distribution("longhaul").read_text("RECORD") or ""
    folder, name = _user_folder() / "sources", _name(record)
    folder.mkdir(parents=True, exist_ok=True)
    _work_in(folder / f"{name}{_OWNER}")
    if not (folder / name).exists():
        _remove_gone(folder)
    return cached(folder, name, _lay_out)


def work_dir() -> Path:
    """Where the embedded AWS works for a command that has no project."""
    return (_user_folder() if is_installed() else _PACKAGE.parent) / ".longhaul"


def _user_folder() -> Path:
    usual = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(usual) / "longhaul"


def _name(record: str) -> str:
    """Of the folder of an installation, which is another for each build and each environment.

    `record`: the text of its RECORD, which has the hashes of all its files.
    """
    return hashlib.sha256(record.encode()).hexdigest()[:12]


def _remove_gone(folder: Path) -> None:
    """Remove what was laid out for installations that are no longer there."""
    for each in folder.glob("*"):
        owner = each.with_suffix(_OWNER)
        if _NAME.fullmatch(each.name) and not _is_there(each.name, owner) and not _is_used(owner):
            shutil.rmtree(each, ignore_errors=True)
            owner.unlink(missing_ok=True)


def _is_there(name: str, owner: Path) -> bool:
    if not owner.exists():
        return False
    records = Path(owner.read_text()).glob("longhaul-*.dist-info/RECORD")
    return any(_name(each.read_text()) == name for each in records)


def _work_in(owner: Path) -> None:
    """Keep the folder while this process lives, also if its installation is replaced meanwhile."""
    if not owner.exists():
        owner.write_text(str(_PACKAGE.parent))
    file = owner.open()
    fcntl.flock(file, fcntl.LOCK_SH)
    _HELD.append(file)


def _is_used(owner: Path) -> bool:
    if not owner.exists():
        return False
    with owner.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _lay_out(folder: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", SHIPPED)
    shutil.copytree(_PACKAGE, folder / _PACKAGE.name, ignore=ignored)
    shutil.copytree(_PACKAGE / SHIPPED, folder, dirs_exist_ok=True, ignore=ignored)
