"""The folder that an embedded AWS works in: one at a time, and none with somebody's own files, because what an earlier run left in it is removed."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.running import DEFAULT_WORK_DIR

LOCK = "work-dir.lock"
"""Stays in the folder, and says that it is ours; it is held by whoever works there, and let go of by the system when they die."""


class WorkDirError(RuntimeError):
    """It is not to be worked in; the message says why, and what to do."""


@contextmanager
def occupied(work_dir: Path) -> Iterator[None]:
    """Work in that folder, which is made if it is not there.

    Raises:
        WorkDirError: another embedded AWS works there, or it holds files that are not of one.
    """
    lock = work_dir / LOCK
    if work_dir.resolve() != DEFAULT_WORK_DIR and not lock.exists() and work_dir.is_dir() and any(work_dir.iterdir()):
        # `functions/` and `tasks/` in it would be removed: in a checkout, the source of the handlers.
        raise WorkDirError(f"{work_dir} holds files of others: name a new or empty folder with --work-dir")
    work_dir.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.seek(0)
            owner = f" (process {text})" if (text := held.read().strip()) else ""
            raise WorkDirError(
                f"another embedded AWS{owner} works in {work_dir}: end that first, or name another folder with --work-dir"
            ) from None
        held.truncate(0)
        held.write(f"{os.getpid()}\n")
        held.flush()
        yield
