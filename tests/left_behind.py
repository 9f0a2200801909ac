"""A plugin of pytest: a run that leaves something on the machine fails, and says what.

What one run leaves the next one leans on: tests pass where they were written, and fail on a machine
where nothing ran before. So each run gets a folder for temporary files of its own, which is empty
at its start and deleted at its end. Nothing may appear beside it, and no process may go on.

In /tmp other programs leave things too: what appears there only `.ci/run` sees, which has a user to
itself.
"""

import getpass
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

_SHARED = Path("/tmp")
_GRACE_S = 20.0  # a JVM ends after the one who started it, and late on a busy machine
_OWN = "longhaul-tests-"  # short: a socket's path has 108 bytes at most
# The second is pytest's, for `tmp_path`.
_EXPECTED = (_OWN, f"pytest-of-{getpass.getuser()}")


@pytest.hookimpl(trylast=True)  # after pytest has chosen the folder for `tmp_path`
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or config.option.collectonly:
        return  # a worker has the environment of the run that started it
    # First, so that pytest keeps what failed tests wrote where it always does.
    kept = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    outside = Path(tempfile.gettempdir())
    own = Path(tempfile.mkdtemp(prefix=_OWN))
    given = os.environ.get("TMPDIR")
    _use(str(own))
    config.add_cleanup(partial(shutil.rmtree, own, ignore_errors=True))
    config.add_cleanup(partial(_use, given))
    config.pluginmanager.register(LeftBehind(outside, (own, kept)))


def _use(folder: str | None) -> None:
    tempfile.tempdir = None  # what it has read before
    if folder is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = folder


class LeftBehind:
    """Compares the machine before and after one run.

    `outside` is where temporary files go by default, `own` what belongs to the run.
    """

    def __init__(self, outside: Path, own: tuple[Path, ...]) -> None:
        self._outside, self._own = outside, own
        self._before = set(_entries(outside))
        self._wrong: list[str] = []

    @pytest.hookimpl(trylast=True)  # the workers have ended by then
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._wrong = [f"still running: {each}" for each in _killed(self._own)]
        new = sorted(set(_entries(self._outside)) - self._before)
        self._wrong += [f"left: {path}" for path in new]
        if self._wrong and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._wrong:
            terminalreporter.section("outside of the run's own folders", red=True)
            terminalreporter.write("".join(f"{line}\n" for line in self._wrong))


def _entries(folder: Path) -> Iterable[Path]:
    found = () if folder == _SHARED else folder.iterdir()
    return (each for each in found if not each.name.startswith(_EXPECTED))


def _killed(own: tuple[Path, ...]) -> list[str]:
    """Wait a little for the run's processes, and kill and name those that go on."""
    until, named = time.monotonic() + _GRACE_S, []
    while (left := _running(own)) and time.monotonic() < until:
        time.sleep(0.1)
    for each in left:
        with suppress(psutil.Error):
            named.append(f"{each.pid} {' '.join(each.cmdline())[:200]}")
            each.kill()
    return named


def _running(own: tuple[Path, ...]) -> list[psutil.Process]:
    """The processes with a folder of the run in their environment or command, or that work there.

    But for this one and those that it descends from.
    """
    above, found = {os.getpid(), *(each.pid for each in psutil.Process().parents())}, []
    for each in psutil.process_iter():
        with suppress(psutil.Error):  # it ends, or is another user's
            words = [*each.environ().values(), *each.cmdline(), each.cwd()]
            is_own = any(f"{folder}/" in f"{word}/" for folder in own for word in words)
            if is_own and each.cmdline() and each.pid not in above:
                found.append(each)
    return found
