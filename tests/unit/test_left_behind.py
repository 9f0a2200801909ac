"""A run of the tests that leaves something on the machine fails, and says what."""

import getpass
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.patience import DEADLINE_S
from tests.shared_spark import uses_spark

USER = getpass.getuser()
REPOSITORY = Path(__file__).parents[2]
PLUGIN = """
from tests import left_behind

pytest_plugins = ["tests.left_behind"]
left_behind._GRACE_S = 0.2
"""
# Where the run's files belong, and where they do not.
QUIET = """
import tempfile
def test(tmp_path):
    (tmp_path / "own").touch()
    tempfile.mkdtemp()
"""
A_FILE = """
import os, pathlib
def test():
    pathlib.Path(os.environ["OUTSIDE"], "stray").touch()
"""
A_PROCESS = """
import os, pathlib, subprocess, sys
def test():
    sleep = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    # As the embedded AWS starts its processes: with little but the folder for temporary files.
    env = {"TMPDIR": os.environ["TMPDIR"]}
    left = subprocess.Popen(sleep, env=env, start_new_session=True, stdout=subprocess.PIPE)
    left.stdout.readline()  # one that is still being started has no command line
    pathlib.Path(os.environ["OUTSIDE"]).parent.joinpath("pid").write_text(str(left.pid))
    left.returncode = 0  # or Python warns of it
"""


class Ran:
    """A run of pytest over one test, and what it left."""

    def __init__(self, folder: Path, test: str, *more: str) -> None:
        self.outside, project = folder / "outside", folder / "project"
        self.outside.mkdir()
        project.mkdir()
        (project / "conftest.py").write_text(PLUGIN)
        (project / "test_one.py").write_text(test)
        (project / "pytest.ini").write_text(f"[pytest]\npythonpath = {REPOSITORY}\n")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *more],
            cwd=project,
            env=os.environ | {"TMPDIR": str(self.outside), "OUTSIDE": str(self.outside)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        self.code, self.output = done.returncode, done.stdout + done.stderr


def test_a_run_that_leaves_nothing_passes_and_deletes_its_temporary_files(tmp_path: Path) -> None:
    ran = Ran(tmp_path, QUIET)
    assert ran.code == pytest.ExitCode.OK, ran.output
    assert [each.name for each in ran.outside.glob("*")] == [f"pytest-of-{USER}"]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_file_beside_the_runs_own_folder_fails_the_run(tmp_path: Path, workers: str) -> None:
    ran = Ran(tmp_path, A_FILE, "-n", workers)
    assert ran.code == pytest.ExitCode.TESTS_FAILED
    assert "1 passed" in ran.output
    assert ran.output.count(f"left: {ran.outside}/stray\n") == 1


def test_a_process_that_goes_on_fails_the_run_and_is_ended(tmp_path: Path) -> None:
    ran = Ran(tmp_path, A_PROCESS)
    pid = int((tmp_path / "pid").read_text())
    assert ran.code == pytest.ExitCode.TESTS_FAILED
    assert f"still running: {pid} {sys.executable}" in ran.output
    with suppress(psutil.NoSuchProcess):  # or nobody has asked for its exit code yet
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


# One worker runs the tests that share a session of Spark, and only those.


def test_files_with_processes_of_their_own_run_on_any_worker() -> None:
    files = ("runner/test_sql", "runner/test_saving", "runner/test_staging", "unit/test_masking")
    assert [uses_spark(f"tests/{each}.py") for each in files] == [True, True, False, False]
