"""The folder in which one embedded AWS works.

What an earlier run left there is removed at a start, so the folder must hold nothing of a user's.
Code is run from there, and logs hold data: no other user of the machine gets in.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = "work-dir.lock"
"""Marks the folder as ours, and is locked while a process works there.

The system releases the lock when the process dies. The file stays.
"""
_MODE = 0o700


class ForeignFolderError(RuntimeError):
    """The folder belongs to another user, who could replace what is written there."""


class WorkDirError(RuntimeError):
    """The folder cannot be used; the message says why, and what to do."""


def make_private_folder(folder: Path) -> None:
    """Make the folder, or close an existing one to other users.

    Raises:
        ForeignFolderError: it belongs to another user, or is reached by a link of one.
    """
    check_owner(folder)
    folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
    check_owner(folder)
    folder.chmod(_MODE)


def check_owner(folder: Path) -> None:
    """Raises ForeignFolderError for a folder, or a link to one, of another user."""
    try:
        owners = {os.lstat(folder).st_uid, folder.stat().st_uid}
    except FileNotFoundError:
        return
    if owners != {os.geteuid()}:
        raise ForeignFolderError(f"{folder} belongs to another user")


@contextmanager
def occupied(work_dir: Path, *, is_ours: bool = False, option: str = "") -> Iterator[None]:
    """Hold the folder for this process. It is made if it does not exist.

    Args:
        work_dir: the folder.
        is_ours: whether the folder belongs to the caller even without a lock file in it.
        option: the command-line option that names the folder, for the error messages.

    Raises:
        WorkDirError: another embedded AWS works there, it holds files of others, or it belongs to
            another user.
    """
    lock = work_dir / LOCK
    by_option = f" with {option}" if option else ""
    try:
        check_owner(work_dir)
        if not is_ours and not lock.exists() and work_dir.is_dir() and any(work_dir.iterdir()):
            # A start removes `functions/` and `tasks/`: in a checkout, that could be source code.
            raise WorkDirError(
                f"{work_dir} holds files of others: name a new or empty folder{by_option}"
            )
        make_private_folder(work_dir)
    except ForeignFolderError as error:
        raise WorkDirError(f"{error}: name a folder of your own{by_option}") from error
    with lock.open("a+") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.seek(0)
            owner = f" (process {text})" if (text := held.read().strip()) else ""
            raise WorkDirError(
                f"another embedded AWS{owner} works in {work_dir}: end that first, "
                f"or name another folder{by_option}"
            ) from None
        held.truncate(0)
        held.write(f"{os.getpid()}\n")
        held.flush()
        yield
