import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.synth import REPOSITORY
from local.work_dir import WorkDirError, occupied


def test_only_one_at_a_time_works_in_a_folder_and_the_second_hears_which_process_does(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    with occupied(folder), pytest.raises(WorkDirError, match=rf"process {os.getpid()}\) works in .*--work-dir"):
        occupied(folder).__enter__()


def test_a_folder_can_be_worked_in_again_whatever_was_left_in_it(tmp_path: Path) -> None:
    with occupied(tmp_path):
        (tmp_path / "functions").mkdir()
    with occupied(tmp_path):
        assert (tmp_path / "functions").is_dir()


def test_a_process_that_was_killed_holds_no_folder(tmp_path: Path) -> None:
    code = (
        "import os, signal; from pathlib import Path; from local.work_dir import occupied\n"
        f"with occupied(Path({str(tmp_path)!r})): os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, timeout=60, check=False)
    assert done.returncode < 0
    with occupied(tmp_path):
        pass


def test_a_folder_with_files_of_others_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "functions").mkdir()
    with pytest.raises(WorkDirError, match="holds files of others: name a new or empty folder"):
        occupied(tmp_path).__enter__()
    assert [file.name for file in tmp_path.iterdir()] == ["functions"]
