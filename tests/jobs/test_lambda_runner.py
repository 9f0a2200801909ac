"""The function of the size `tiny`: a process for each job, and nothing of it left behind."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from jobs import lambda_runner
from jobs.lambda_runner import JobEnded, lambda_handler
from longhaul.domain.engines.aws_lambda import ends_by

EVENT = {"key": "main#flights", "run": "1767323045000", "attempt": "2", "size": "tiny"}
# Takes the place of `python -m jobs.lambda_runner` in the child.
CHILD = """
import os, subprocess, sys, time
from pathlib import Path
folder = Path(os.environ["TMPDIR"])
(folder / "secret").write_text("of the first job")
(folder / "folder").mkdir()
(folder / "link").symlink_to("/")
orphan = "import time; time.sleep(600)"
left = subprocess.Popen([sys.executable, "-c", orphan], start_new_session=True)
Path(os.environ["SEEN"]).write_text(" ".join([
    str(left.pid), os.environ["LONGHAUL_KEY"], os.environ["LONGHAUL_ATTEMPT"], *sys.argv[3:]]))
"""


class Context:
    aws_request_id = "5d4a9c5e"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:tiny"
    memory_limit_in_mb = "3008"

    def __init__(self, remaining_s: float = 900) -> None:
        self.remaining_s = remaining_s

    def get_remaining_time_in_millis(self) -> int:
        return round(self.remaining_s * 1000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "tmp"
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    return made


def runs(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """The child runs this code in place of the runner."""
    popen = subprocess.Popen

    def start(command: list[str], **options: object) -> "subprocess.Popen[bytes]":
        assert command[1:3] == ["-m", "jobs.lambda_runner"]
        return popen(
            [sys.executable, "-c", code, "-m", "jobs.lambda_runner", *command[3:]], **options
        )

    monkeypatch.setattr(lambda_runner.subprocess, "Popen", start)


def test_a_job_gets_a_process_that_knows_its_attempt_and_leaves_neither_files_nor_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, CHILD)
    before = datetime.now(UTC)
    assert lambda_handler(EVENT, Context()) == {}

    pid, key, attempt, task, memory = Path(os.environ["SEEN"]).read_text().split()
    assert (key, attempt, memory) == ("main#flights", "2", "3008")
    assert abs(ends_by(task) - before - timedelta(seconds=900)) < timedelta(seconds=60)
    assert not psutil.pid_exists(int(pid))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(65)", "exit code 65"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit code 137"),
    ],
)
def test_a_job_that_fails_is_an_error_of_the_function_with_its_exit_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    runs(monkeypatch, code)
    with pytest.raises(JobEnded, match=f"^{said}$"):
        lambda_handler(EVENT, Context())
    assert list(folder.iterdir()) == []


def test_a_runner_that_hangs_is_killed_before_lambda_ends_the_invocation(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, "import time; time.sleep(600)")
    with pytest.raises(JobEnded, match="did not end in time"):
        lambda_handler(EVENT, Context(remaining_s=lambda_runner._MARGIN_S + 1))
    assert psutil.Process().children(recursive=True) == []
    assert list(folder.iterdir()) == []
