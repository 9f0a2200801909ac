"""Bytecode for another version of Python than this one.

A layer is read-only: a function compiles what has no bytecode at each cold start, which takes
longer than the imports themselves. Only a Python of the function's own version can write it, so a
machine without one builds a layer without bytecode.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

_LIMIT_S: Final = 300


def compiler(version: str) -> str | None:
    """A Python of that version: this one, or the one on the PATH."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = shutil.which(f"python{version}")
    return found if found and _answers(found) else None


def _answers(python: str) -> bool:
    """Whether it runs. pyenv puts programs on the PATH that only say which version is missing."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", ""], capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def write(python: str, folder: Path, *, at: str) -> None:
    """Compile all modules in the folder, which will lie at the path `at`.

    The result depends on nothing but their text: neither on times, which an archive loses, nor on
    the place of the folder.

    Raises:
        subprocess.CalledProcessError: a module cannot be compiled.
    """
    unchecked = ("--invalidation-mode", "unchecked-hash")
    paths = ("-s", str(folder), "-p", at, str(folder))
    subprocess.run(
        [python, "-I", "-m", "compileall", "-q", *unchecked, *paths],
        check=True,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
