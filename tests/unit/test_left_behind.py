"""A run of the tests that leaves something on the machine fails, and says what."""

import ast
import os
import pwd
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.left_behind import others_worked, seconds_of_others
from tests.patience import DEADLINE_S
from tests.shared_spark import leading_to_spark, uses, uses_spark

USER = pwd.getpwuid(os.getuid()).pw_name
REPOSITORY = Path(__file__).parents[2]
PLUGIN = """
from pathlib import Path
from tests import left_behind

pytest_plugins = ["tests.left_behind"]
left_behind.SHARED = ()  # only where TMPDIR points: others use the machine's own
left_behind._GRACE_S = 0.2
left_behind.others_worked = lambda before, after: {others}
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

    def __init__(self, folder: Path, test: str, *more: str, others: bool = False) -> None:
        self.outside, project = folder / "outside", folder / "project"
        self.outside.mkdir()
        project.mkdir()
        (project / "conftest.py").write_text(PLUGIN.format(others=others))
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


def test_a_file_that_another_program_may_have_made_is_named_only(tmp_path: Path) -> None:
    ran = Ran(tmp_path, A_FILE, others=True)
    assert ran.code == pytest.ExitCode.OK
    assert f"left: {ran.outside}/stray\n" in ran.output


def test_a_process_that_goes_on_fails_the_run_and_is_ended(tmp_path: Path) -> None:
    ran = Ran(tmp_path, A_PROCESS)
    pid = int((tmp_path / "pid").read_text())
    assert ran.code == pytest.ExitCode.TESTS_FAILED
    assert f"still running: {pid} {sys.executable}" in ran.output
    with suppress(psutil.NoSuchProcess):  # or nobody has asked for its exit code yet
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_program_that_worked_meanwhile_may_have_made_what_appeared(tmp_path: Path) -> None:
    endless = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(endless, env={}) as other:
        process = psutil.Process(other.pid)
        own = (tmp_path,)
        before, until = seconds_of_others(own), time.monotonic() + 10
        while seconds_of_others(own)[process] == before[process] and time.monotonic() < until:
            time.sleep(0.02)
        after = seconds_of_others(own)
        other.kill()
    assert others_worked({process: before[process]}, {process: after[process]})
    assert not others_worked(before, before)
    assert others_worked(before, {})  # it ended


# One worker runs the tests that share a session of Spark, and only those.


@pytest.mark.parametrize(
    "code",
    [
        "def test_a(spark): ...",
        "@pytest.fixture\ndef frame(*, spark): ...",
        "def test_a(request): request.getfixturevalue('spark')",
        "@pytest.mark.usefixtures('tmp_path', 'spark')\ndef test_a(): ...",
    ],
)
def test_a_file_uses_spark_if_a_test_or_a_fixture_asks_for_it(code: str) -> None:
    assert uses(ast.parse(code), {"spark"})


@pytest.mark.parametrize(
    "code",
    [
        "def test_a(tmp_path): start('spark')",
        "from pyspark.sql import SparkSession\ndef test_a(cloud): spark = cloud",
    ],
)
def test_a_file_that_names_spark_in_another_way_does_not_use_it(code: str) -> None:
    assert not uses(ast.parse(code), {"spark"})


def test_fixtures_that_lead_to_spark_are_found_through_others() -> None:
    assert {"spark", "make_attempt", "attempts"} <= leading_to_spark()
    assert leading_to_spark().isdisjoint({"cloud", "remote", "tmp_path", "make_job"})


def test_files_with_processes_of_their_own_run_on_any_worker() -> None:
    files = ("runner/test_sql", "runner/test_saving", "runner/test_staging", "unit/test_masking")
    assert [uses_spark(f"tests/{each}.py") for each in files] == [True, True, False, False]
