"""A plugin of pytest: a run that leaves something on the machine fails, and says what.

What one run leaves the next one leans on: tests pass where they were written, and fail on a machine
where nothing ran before. So each run gets a folder for temporary files of its own, which is empty
at its start and deleted at its end. Nothing may appear beside it, and no process may go on.

In folders such as /tmp, other programs of the same user leave things too. Where one of them worked
during the run, what appeared there is named only. `.ci/run` has a user to itself.
"""

import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

# Where any program may write.
SHARED = tuple(map(Path, ("/tmp", "/var/tmp", "/dev/shm", f"/run/user/{os.getuid()}")))
# Where no program creates anything in the minutes of a run.
_QUIET = (Path("/"), Path(pwd.getpwuid(os.getuid()).pw_dir))
# Tests name it as a folder that there is not. As root they could make it.
_ABSENT = Path("/nonexistent")
_GRACE_S = 20.0  # a JVM ends after the one who started it, and late on a busy machine
_USER = pwd.getpwuid(os.getuid()).pw_name
# The JVM keeps its counters in /tmp whatever TMPDIR says. The second is pytest's, for `tmp_path`.
_EXPECTED = (f"hsperfdata_{_USER}", f"pytest-of-{_USER}")
_OWN = "longhaul-tests-"  # short: a socket's path has 108 bytes at most


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
        self._own = own
        self._shared = {*SHARED, outside}
        self._quiet = {each for each in _QUIET if each != Path.home()} - self._shared
        self._before = set(_entries(self._shared | self._quiet))
        self._seconds = seconds_of_others(own)
        self._wrong = [f"found: {_ABSENT}"] if _ABSENT.exists() else []
        self._doubtful: list[str] = []

    @pytest.hookimpl(trylast=True)  # the workers have ended by then
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for process in _ended(self._own):
            self._wrong.append(f"still running: {process}")
        new = set(_entries(self._shared | self._quiet)) - self._before
        others = others_worked(self._seconds, seconds_of_others(self._own))
        for path in sorted(new):
            is_doubtful = path.parent in self._shared and others
            (self._doubtful if is_doubtful else self._wrong).append(f"left: {path}")
        if self._wrong and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._wrong:
            terminalreporter.section("outside of the run's own folders", red=True)
            terminalreporter.write("".join(f"{line}\n" for line in self._wrong))
        if self._doubtful:
            terminalreporter.section("by these tests, or by another program", yellow=True)
            terminalreporter.write("".join(f"{line}\n" for line in self._doubtful))


def _entries(folders: Iterable[Path]) -> Iterator[Path]:
    """What this user owns directly in the folders."""
    for folder in folders:
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for each in entries:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    is_ours = each.stat(follow_symlinks=False).st_uid == os.getuid()
                    is_of_a_run = each.name in _EXPECTED or each.name.startswith(_OWN)
                    if is_ours and not is_of_a_run:
                        yield folder / each.name


def _processes() -> Iterator[psutil.Process]:
    """Those of this user but this process and the ones that it descends from."""
    above = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
    for each in psutil.process_iter():
        with suppress(psutil.Error):  # it ends, or is another user's
            if each.pid not in above and each.uids().real == os.getuid() and each.cmdline():
                yield each


def _belongs(process: psutil.Process, own: tuple[Path, ...]) -> bool:
    """Whether it has a folder of the run in its environment or command, or works there."""
    with suppress(psutil.Error):
        words = [*process.environ().values(), *process.cmdline(), f"{process.cwd()}/"]
        return any(f"{folder}/" in f"{word}/" for folder in own for word in words)
    return False


def _ended(own: tuple[Path, ...]) -> list[str]:
    """Wait a little for the run's processes, and kill and name those that go on."""
    until = time.monotonic() + _GRACE_S
    while left := [each for each in _processes() if _belongs(each, own)]:
        if time.monotonic() > until:
            return [name for each in left if (name := _killed(each))]
        time.sleep(0.1)
    return []


def _killed(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        name = " ".join(process.cmdline())
        process.kill()
        return f"{process.pid} {name[:200]}"
    return ""


def seconds_of_others(own: tuple[Path, ...]) -> dict[psutil.Process, float]:
    """The CPU time so far of each process of this user that has nothing to do with the run."""
    found = {}
    for each in _processes():
        with suppress(psutil.Error):
            if not _belongs(each, own):
                found[each] = sum(each.cpu_times()[:4])  # with the children that it waited for
    return found


def others_worked(
    before: Mapping[psutil.Process, float], after: Mapping[psutil.Process, float]
) -> bool:
    """Whether another program may have made what appeared meanwhile."""
    return before != after
