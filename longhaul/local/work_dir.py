"""The folder in which one embedded AWS works.

What an earlier run left there is removed at a start, so the folder must hold nothing of a user's.
Code is run from there, and logs hold data: no other user of the machine gets in.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from longhaul.local.private_files import (
    UMASK,
    ForeignFolderError,
    check_owner,
    make_private_folder,
    private,
)

LOCK = "work-dir.lock"
"""Marks the folder as ours, and is locked while a process works there.

The system releases the lock when the process dies. The file stays.
"""


class WorkDirError(RuntimeError):
    """The folder cannot be used; the message says why, and what to do."""


@contextmanager
def occupied(work_dir: Path, *, is_ours: bool = False, option: str = "") -> Iterator[None]:
    """Hold the folder for this process. It is made if it does not exist.

    Until the end, whatever this process and its children write can be read by their user alone.

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
    with _opened(lock) as held:
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
        before = os.umask(UMASK)
        try:
            yield
        finally:
            os.umask(before)


def _opened(lock: Path) -> TextIO:
    try:
        return open(lock, "a+", opener=private)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise WorkDirError(f"{lock} is a symbolic link: remove it") from error
        raise
