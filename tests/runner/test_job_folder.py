"""A job's folder: which of its files are sent, and how they are known again."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from boto3.exceptions import S3UploadFailedError

from longhaul.job import PermanentJobError
from longhaul.runner.io.saved_files import ChangedWhileSentError, JobFolder
from longhaul.runner.io.written import NotAFileError


def test_more_files_than_a_folder_may_have_are_refused(
    make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.runner.io.saved_files.MAX_FOLDER_FILES", 1)
    job = make_job({})
    for name in "ab":
        job.folder("model").joinpath(name).touch()
    with pytest.raises(PermanentJobError, match="more than 1 files: pack them together"):
        job.save()


def test_the_files_of_all_folders_are_counted_together(
    make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.runner.saving.MAX_FOLDER_FILES", 1)
    job = make_job({})
    for name in "ab":
        job.folder(name).joinpath("file").touch()
    with pytest.raises(PermanentJobError, match="folders hold more than 1 files"):
        job.save()


class Folder:
    """A job's folder, and what S3 has of it."""

    def __init__(self, folder: Path) -> None:
        self.sent: dict[str, str] = {}
        self.disk = folder
        self.files = JobFolder(self, folder)
        self.files.restore({})
        self.while_sending: Callable[[], object] = lambda: None

    def store(self, files: Mapping[str, Path]) -> None:
        for name, file in files.items():
            self.sent[name] = file.read_text()
        self.while_sending()

    def bring(self, files: Mapping[str, Path]) -> None:
        for name, file in files.items():
            file.write_text(self.sent[name])

    def folder(self, place: str) -> Path:
        return self.disk / place

    def saved(self, n: int) -> dict[str, str]:
        """The files after the `n`th save, with their content."""
        return {
            path: self.sent[file.object] for path, file in self.files.store(f"1-1/{n}/").items()
        }


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "model")


def test_unchanged_files_are_not_sent_again(folder: Folder) -> None:
    for name in "abc":
        (folder.disk / name).write_text(name)
    folder.saved(1)
    (folder.disk / "b").write_text("B")
    (folder.disk / "c").touch()  # the same content
    (folder.disk / "a").unlink()
    assert folder.saved(2) == {"b": "B", "c": "c"}
    assert [*folder.sent] == ["1-1/1/0", "1-1/1/1", "1-1/1/2", "1-1/2/0"]


def test_a_file_that_changes_while_it_is_sent_is_not_stored_by_that_save(folder: Folder) -> None:
    (folder.disk / "w").write_text("HALF")
    folder.while_sending = lambda: (folder.disk / "w").write_text("REST")
    with pytest.raises(ChangedWhileSentError, match="w has changed while it was sent"):
        folder.saved(1)
    folder.while_sending = lambda: None
    assert folder.saved(2) == {"w": "REST"}


@pytest.mark.parametrize(
    "error", [ChangedWhileSentError("w has changed"), S3UploadFailedError("SlowDown")]
)
def test_a_file_that_cannot_be_sent_now_makes_a_save_late(
    make_job: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    job = make_job({})
    job.folder("model").joinpath("w").write_text("x")
    monkeypatch.setattr(type(job.saving.objects), "store", Mock(side_effect=error))
    assert job.saving.save() is False
    assert job.saving.records.load() is None
    monkeypatch.undo()
    assert job.saving.save() is True


def test_lines_that_wait_in_a_file_that_is_open_are_stored_too(folder: Folder) -> None:
    with (folder.disk / "w").open("a") as text, (folder.disk / "b").open("ab") as content:
        text.write("line")
        content.write(b"bytes")
        assert folder.saved(1) == {"b": "bytes", "w": "line"}
        text.write("s")
        assert folder.saved(2) == {"b": "bytes", "w": "lines"}


@pytest.mark.parametrize(
    ("name", "message"), [("a\tb", "cannot list"), ("/".join(["x" * 200] * 11), "2,000 characters")]
)
def test_a_file_that_a_record_cannot_name_is_refused(
    folder: Folder, name: str, message: str
) -> None:
    file = folder.disk / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    with pytest.raises(PermanentJobError, match=message):
        folder.saved(1)


def test_a_file_in_the_place_of_the_folder_is_refused(folder: Folder) -> None:
    folder.disk.rmdir()
    folder.disk.write_text("what the library takes for a folder's name")
    with pytest.raises(NotAFileError, match="the job's folder is a file"):
        folder.saved(1)


def test_a_file_is_stored_as_it_is_whatever_its_times_say(folder: Folder) -> None:
    """As who unpacks archives, and who writes through memory, leaves it."""
    file = folder.disk / "w"
    for number, content in enumerate(("first", "other", "third")):
        file.write_text(content)
        os.utime(file, (1, 1))
        assert folder.saved(number) == {"w": content}
