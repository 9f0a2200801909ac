import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.local import running
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.private_files import private
from longhaul.local.processes import ProcessGroup
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


@pytest.fixture
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
def test_folder_and_what_is_written_there_belong_to_their_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    with occupied(folder):
        (folder / "written").write_text("x")
        (folder / "made").mkdir()
        subprocess.run(["/bin/touch", folder / "by-a-child"], check=True)
    assert {path.name: oct(_mode(path)) for path in [folder, *folder.iterdir()]} == {
        "work": "0o700",
        LOCK: "0o600",
        "written": "0o600",
        "made": "0o700",
        "by-a-child": "0o600",
    }
    after = tmp_path / "after"
    after.touch()
    assert _mode(after) == 0o666


@pytest.mark.usefixtures("_open_umask")
def test_folder_of_an_earlier_version_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch(0o666)
    tmp_path.chmod(0o777)
    with occupied(tmp_path):
        assert (_mode(tmp_path), _mode(tmp_path / LOCK)) == (0o700, 0o600)


def test_lock_that_is_a_link_is_refused_and_its_target_is_unchanged(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("text")
    precious.chmod(0o644)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / LOCK).symlink_to(precious)
    with pytest.raises(WorkDirError, match=rf"{LOCK} is a symbolic link: remove it"):
        occupied(folder).__enter__()
    assert (precious.read_text(), _mode(precious)) == ("text", 0o644)


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


def test_files_with_known_names_are_private_and_follow_no_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("text")
    (tmp_path / "link").symlink_to(target)
    for mode in ("r", "w", "a", "r+"):
        with pytest.raises(OSError, match="symbolic links"):
            open(tmp_path / "link", mode, opener=private).close()
    assert target.read_text() == "text"
    loose = tmp_path / "loose"
    loose.touch(0o666)
    with open(loose, "a", opener=private), open(tmp_path / "new", "w", opener=private):
        assert (_mode(loose), _mode(tmp_path / "new")) == (0o600, 0o600)


@pytest.mark.usefixtures("_open_umask")
def test_announcement_is_private_and_replaces_links(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("text")
    for name in (running.FILE, f"{running.FILE}.{os.getpid()}"):
        (tmp_path / name).symlink_to(target)
    running.announce(tmp_path, endpoint="http://127.0.0.1:1", region="r", stack="s")
    assert target.read_text() == "text"
    assert not (tmp_path / running.FILE).is_symlink()
    assert _mode(tmp_path / running.FILE) == 0o600
    assert running.find(tmp_path) is not None


def test_announcement_behind_a_link_or_of_another_user_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.announce(tmp_path, endpoint="http://127.0.0.1:1", region="r", stack="s")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / running.FILE).symlink_to(tmp_path / running.FILE)
    assert running.find(elsewhere) is None
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert running.find(tmp_path) is None


@pytest.mark.usefixtures("_open_umask")
def test_logs_and_files_of_child_processes_are_private(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "x.log"
    process = ProcessGroup(
        ["touch", str(tmp_path / "by-a-child")],
        cwd=tmp_path,
        environment={"PATH": os.environ["PATH"]},
        log=log,
    )
    process.wait()
    modes = [oct(_mode(each)) for each in (log.parent, log, tmp_path / "by-a-child")]
    assert modes == ["0o700", "0o600", "0o600"]
    (tmp_path / "link.log").symlink_to(tmp_path / "by-a-child")
    with pytest.raises(OSError, match="symbolic links"):
        ProcessGroup(["true"], cwd=tmp_path, environment={}, log=tmp_path / "link.log")


@pytest.mark.usefixtures("_open_umask")
def test_embedded_aws_closes_its_folder_even_where_none_is_occupied(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir(mode=0o777)
    with EmbeddedAws(work_dir=folder, task_dir=tmp_path):
        assert _mode(folder) == 0o700
