import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.local import running
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.work_dir import LOCK, WorkDirError, occupied
from tests.patience import DEADLINE_S


def test_second_process_in_a_folder_is_an_error_that_names_the_first(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    with (
        occupied(folder),
        pytest.raises(WorkDirError, match=rf"process {os.getpid()}\) works in .*--work-dir"),
    ):
        occupied(folder, option="--work-dir").__enter__()


def test_folder_of_an_earlier_run_is_taken_with_its_files(tmp_path: Path) -> None:
    with occupied(tmp_path):
        (tmp_path / "functions").mkdir()
    with occupied(tmp_path):
        assert (tmp_path / "functions").is_dir()


def test_killed_process_releases_its_folder(tmp_path: Path) -> None:
    code = (
        "import os, signal; from pathlib import Path\n"
        "from longhaul.local.work_dir import occupied\n"
        f"with occupied(Path({str(tmp_path)!r})): os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, timeout=DEADLINE_S, check=False)
    assert done.returncode < 0
    with occupied(tmp_path):
        pass


def test_folder_with_files_of_others_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "functions").mkdir()
    with pytest.raises(WorkDirError, match="holds files of others: name a new or empty folder"):
        occupied(tmp_path).__enter__()
    assert [file.name for file in tmp_path.iterdir()] == ["functions"]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_folder_is_closed_to_other_users_and_by_the_embedded_aws_too(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    for take in (occupied(tmp_path), EmbeddedAws(work_dir=tmp_path, task_dir=tmp_path)):
        tmp_path.chmod(0o777)
        with take:
            assert _mode(tmp_path) == 0o700


def test_folder_or_link_of_another_user_is_refused_and_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    for each in (folder, tmp_path / "link"):
        with pytest.raises(WorkDirError, match=r"belongs to another user: name a .* --work-dir"):
            occupied(each, option="--work-dir").__enter__()
    assert (list(folder.iterdir()), _mode(folder)) == ([], 0o755)


def test_link_to_a_folder_of_ours_is_refused_when_another_user_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder)
    lstat = os.lstat

    def of_another(path: Path) -> Any:
        found = lstat(path)
        return SimpleNamespace(st_uid=found.st_uid + 1) if Path(path) == link else found

    monkeypatch.setattr(os, "lstat", of_another)
    with pytest.raises(WorkDirError, match="belongs to another user"):
        occupied(link).__enter__()


def test_announcement_of_another_user_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.announce(tmp_path, endpoint="http://127.0.0.1:1", region="r", stack="s")
    assert running.find(tmp_path) is not None
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert running.find(tmp_path) is None
