"""The function of the size `tiny`: a process for each job, and nothing of it left behind."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from longhaul.core.settings import VARIABLE, runtime_settings
from longhaul.engines.aws_lambda import runner
from longhaul.engines.aws_lambda.ends import CLOCK_RIGHT_WITHIN, ends_by
from longhaul.engines.aws_lambda.runner import (
    ExecutionEnvironment,
    JobEnded,
    NotCleanError,
    adopt_orphans,
)
from tests.builders import settings

# It has wheels for Linux alone.
bootstrap = pytest.importorskip("awslambdaric.bootstrap")
marshaller = pytest.importorskip("awslambdaric.lambda_runtime_marshaller")

EVENT = {
    "key": "main#flights",
    "stage": "main",
    "job": "flights_clean",
    "run": "1767323045000",
    "attempt": "2",
    "size": "tiny",
}
# Runs until it is killed, or until the process of the tests is gone, however that ended.
ENDLESS = "import os; os.read(int(os.environ['LIFELINE']), 1)"
# Takes the place of the runner in the child.
CHILD = f"""
import os, subprocess, sys
from pathlib import Path
folder = Path(os.environ["TMPDIR"])
(folder / "secret").write_text("of the first job")
(folder / "folder").mkdir()
(folder / "link").symlink_to("/")
line = int(os.environ["LIFELINE"])
orphan = [sys.executable, "-c", {ENDLESS!r}]
left = subprocess.Popen(orphan, start_new_session=True, pass_fds=[line])
Path(os.environ["SEEN"]).write_text(" ".join([
    str(left.pid), os.environ["LONGHAUL_KEY"], os.environ.get("LONGHAUL_JOB", "none"),
    os.environ["LONGHAUL_ATTEMPT"], *sys.argv[1:]]))
"""


class Context:
    aws_request_id = "5d4a9c5e"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:tiny"
    memory_limit_in_mb = "3008"

    def __init__(self, remaining_s: float = 900) -> None:
        self.remaining_s = remaining_s

    def get_remaining_time_in_millis(self) -> int:
        return round(self.remaining_s * 1000)


def lifeline() -> int:
    """The end of a pipe from which nothing comes, until this process is gone."""
    return int(os.environ["LIFELINE"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    made = tmp_path / "tmp"
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv(VARIABLE, settings().model_dump_json())
    reading, writing = os.pipe()
    monkeypatch.setenv("LIFELINE", str(reading))
    adopt_orphans()
    runtime_settings.cache_clear()
    yield made
    runtime_settings.cache_clear()
    stop_adopting()
    os.close(reading)
    os.close(writing)


def stop_adopting() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(runner._SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def running(code: str) -> ExecutionEnvironment:
    """An environment whose jobs are this code in place of the runner."""

    def fork(arguments: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        fork = [sys.executable, "-c", code, *arguments]
        return subprocess.Popen(fork, env=environment, pass_fds=[lifeline()])

    return ExecutionEnvironment(_fork=fork)


def test_a_forked_process_has_the_environment_of_its_job_and_no_files_of_its_parent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    seen = tmp_path / "seen"

    def main(task: str) -> int:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(writing)
        seen.write_text(f"{task} {os.environ['LONGHAUL_KEY']}")
        return 65

    monkeypatch.setattr(runner, "main", main)
    forked = runner.Forked(["task"], os.environ | {"LONGHAUL_KEY": "main#flights"})

    assert forked.wait(60) == 65
    assert seen.read_text() == "task main#flights"
    assert "LONGHAUL_KEY" not in os.environ
    os.close(reading)
    os.close(writing)


def test_a_forked_process_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "main", lambda *_: signal.pause())
    forked = runner.Forked([], os.environ)

    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0)
    forked.kill()

    assert forked.wait() == -signal.SIGKILL


@pytest.fixture
def environment(folder: Path) -> Iterator[ExecutionEnvironment]:
    made = running(CHILD)
    yield made
    assert made.cleaned() == set()
    assert list(folder.iterdir()) == []
    assert {each.pid for each in psutil.Process().children(recursive=True)} <= made.spared


def test_a_job_gets_a_process_that_knows_its_attempt_and_leaves_neither_files_nor_processes(
    environment: ExecutionEnvironment, folder: Path
) -> None:
    before = datetime.now(UTC)
    environment.run(EVENT, Context())

    pid, key, job, attempt, task, memory = Path(os.environ["SEEN"]).read_text().split()
    assert (key, job, attempt, memory) == ("main#flights", "flights_clean", "2", "3008")
    ended_in = timedelta(seconds=900) + CLOCK_RIGHT_WITHIN
    assert abs(ends_by(task) - before - ended_in) < timedelta(seconds=60)
    assert not psutil.pid_exists(int(pid))
    assert list(folder.iterdir()) == []
    assert {each.pid for each in psutil.Process().children()} <= environment.spared


class Runtime:
    """What Lambda's runtime client is told, and prints."""

    def __init__(self) -> None:
        self.marshaller = marshaller.LambdaMarshaller()
        self.reported: dict[str, Any] = {}
        self.printed: list[str] = []

    def post_invocation_error(self, _id: str, error: str, *_: object) -> None:
        self.reported = json.loads(error)

    def log_error(self, lines: list[str]) -> None:
        self.printed += lines

    def handle(self, handler: Callable[..., object]) -> None:
        """Run the handler for one invocation, as in Lambda."""
        bootstrap.handle_event_request(
            self,
            lambda event, _: handler(event, Context()),
            *("id", json.dumps(EVENT), "application/json", "{}", "{}", "arn", 0, None),
            self,
        )


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(bootstrap, "log_error", bootstrap.log_error)  # restored
    monkeypatch.setenv("HOME", os.environ["HOME"])
    return Runtime()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(65)", "exit code 65"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit code 137"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_log_has_one_line_about_the_end_of_a_failed_job_and_none_of_our_frames(
    runtime: Runtime,
    code: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runner, "_ENVIRONMENT", running(code))
    runtime.handle(runner.lambda_handler)
    runtime.handle(runner.lambda_handler)  # the same process goes on

    assert runtime.reported["errorType"] == "JobEnded"
    assert runtime.reported["errorMessage"].startswith(f"{said}; ended: arn:aws:lambda:")
    assert runtime.printed == []
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [each["message"] for each in lines] == [f"the runner ended: {said}"] * 2
    assert (lines[0]["job_id"], lines[0]["attempt"], lines[0]["level"]) == ("flights", 2, "WARNING")
    assert lines[0]["execution"].endswith("-1767323045000-2")


@pytest.mark.usefixtures("folder")
def test_an_error_of_our_own_is_printed_by_the_runtime(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(runner, "_ENVIRONMENT", Mock(run=broken))
    runtime.handle(runner.lambda_handler)

    assert runtime.printed[:2] == [
        "[ERROR] RuntimeError: a defect",
        "Traceback (most recent call last):",
    ]


def test_a_runner_that_hangs_is_killed_before_lambda_ends_the_invocation(folder: Path) -> None:
    environment = running(ENDLESS)
    with pytest.raises(JobEnded, match="did not end in time"):
        environment.run(EVENT, Context(remaining_s=runner._MARGIN_S + 1))
    assert {each.pid for each in psutil.Process().children(recursive=True)} <= environment.spared
    assert list(folder.iterdir()) == []


# As in Lambda: not as root, for whom no folder is closed.
AS_NOBODY = """
import os, sys
from pathlib import Path
from longhaul.engines.aws_lambda.runner import clean
folder = Path()  # relative: the folders above it may be closed to nobody
if os.getuid() == 0:
    os.chown(folder, 65534, 65534)
    os.setuid(65534)
inner = folder / "unpacked" / "pkg"
inner.mkdir(parents=True)
(inner / "rows.csv").write_text("of the first job")
inner.chmod(0o555)
(folder / "closed" / "inner").mkdir(parents=True)
(folder / "closed").chmod(0)
(folder / "link").symlink_to(sys.argv[1])
clean(folder, frozenset())
print([each.name for each in folder.iterdir()])
"""


def test_a_folder_that_its_job_closed_is_deleted_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(tmp_path)],
        cwd=tmp_path / "work",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, tmp_path.stat().st_mode & 0o777) == ("[]\n", 0o711), done.stderr


@pytest.mark.parametrize(("name", "levels"), [("d", 3_000), ("x" * 200, 30)])
def test_folders_within_folders_are_deleted_however_deep(
    environment: ExecutionEnvironment, folder: Path, name: str, levels: int
) -> None:
    nest(folder / "archive", name, levels)
    environment.run(EVENT, Context())
    assert list(folder.iterdir()) == []


def nest(top: Path, name: str, levels: int) -> None:
    """Folders within each other, of which the inner ones may have no path."""
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_no_job_starts_beside_files_that_could_not_be_deleted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = running(CHILD)
    with monkeypatch.context() as undeletable:
        undeletable.setattr(runner, "_delete", Mock(side_effect=PermissionError))
        environment.run(EVENT, Context())
        Path(os.environ["SEEN"]).unlink()
        undeletable.setattr(runner, "_ENVIRONMENT", environment)
        # The process ends with it: Lambda would give it each job to come.
        with pytest.raises(SystemExit, match="files of an earlier job"):
            runner.lambda_handler(EVENT, Context())
        assert not Path(os.environ["SEEN"]).exists()
        # A new process finds them too.
        with pytest.raises(NotCleanError):
            running(CHILD).run(EVENT, Context())
    assert environment.cleaned() == set()
    assert list(folder.iterdir()) == []


def test_files_of_another_user_are_no_jobs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "not of a job").mkdir()
    environment = running("")
    with monkeypatch.context() as foreign:
        foreign.setattr(runner, "_delete", Mock(side_effect=PermissionError))
        foreign.setattr(os, "getuid", lambda: -1)
        environment.run(EVENT, Context())
    assert environment.cleaned() == set()
    assert list(folder.iterdir()) == []
