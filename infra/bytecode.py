"""Bytecode for another version of Python than this one.

A layer is read-only: a function compiles what has no bytecode at each cold start, which takes
longer than the imports themselves. Only a Python of the function's own version can write it, so a
machine without one builds a layer without bytecode.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

_LIMIT_S: Final = 300


def compiler(version: str) -> str | None:
    """A Python of that version: this one, the one on the PATH, or one of pyenv's."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    name = f"python{version}"
    found = (shutil.which(name), *of_pyenv(name))
    return next((python for python in found if python and _answers(python)), None)


def of_pyenv(name: str) -> list[str]:
    """The programs of that name that pyenv has.

    Those that it puts on the PATH fail while another version is chosen.
    """
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return [str(path) for path in sorted(root.glob(f"versions/3.*/bin/{name}"))]


def _answers(python: str) -> bool:
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
