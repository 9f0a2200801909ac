"""The files of the state: a database of SQLite, and beside it the contents of objects."""

import errno
import shutil
import sqlite3
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Final, Self

import moto

FOLDER: Final = "state"
# Raised with each change of what the tables hold.
_FORMAT: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS bucket (name TEXT PRIMARY KEY, region TEXT);
CREATE TABLE IF NOT EXISTS object (
    bucket TEXT, key TEXT, position INTEGER, data BLOB, tags TEXT, file TEXT,
    PRIMARY KEY (bucket, key, position)
);
CREATE TABLE IF NOT EXISTS upload (id TEXT PRIMARY KEY, bucket TEXT, data BLOB);
CREATE TABLE IF NOT EXISTS part (
    upload TEXT, number INTEGER, data BLOB, file TEXT, PRIMARY KEY (upload, number)
);
CREATE TABLE IF NOT EXISTS item (
    "table" TEXT, key TEXT, attributes BLOB, PRIMARY KEY ("table", key)
);
CREATE TABLE IF NOT EXISTS message (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, queue TEXT, data BLOB
);
CREATE TABLE IF NOT EXISTS database (name TEXT PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS catalog (
    database TEXT, name TEXT, data BLOB, PRIMARY KEY (database, name)
);
CREATE TABLE IF NOT EXISTS execution (arn TEXT PRIMARY KEY, started REAL, data TEXT);
CREATE TABLE IF NOT EXISTS schedule (
    "group" TEXT, name TEXT, data BLOB, PRIMARY KEY ("group", name)
);
CREATE TABLE IF NOT EXISTS secret (
    service TEXT, name TEXT, data BLOB, PRIMARY KEY (service, name)
);
CREATE TABLE IF NOT EXISTS log ("group" TEXT, stream TEXT, at REAL, events TEXT);
"""
# As long as AWS keeps executions. Logs are kept as long as the stack's own usually are.
_EXECUTIONS_FOR_S: Final = 90 * 86_400
_LOGS_FOR_S: Final = 30 * 86_400
# A reader may still be at a file whose object was replaced.
_KEEP_REPLACED_S: Final = 60


# Where the disk is full, what is stored may be whole: to throw it away would not help.
_CANNOT_WRITE: Final = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
}
_PRIMARY_CODE: Final = 0xFF


class StateError(RuntimeError):
    """The state of an earlier start cannot be used; the message says why, and what to do."""


def cannot_write(error: BaseException) -> bool:
    """Whether a change failed because of the disk, and not because of what was to be stored."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _CANNOT_WRITE
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}


class Store:
    """Takes what is written from any thread. One process at a time may open a folder."""

    def __init__(self, folder: Path, stack: str) -> None:
        """`stack` is the name of the one stack whose state this is."""
        self.folder = folder
        self.recording = False
        """Whether changes are kept. What a start itself makes is not."""
        self.lock = RLock()
        self._stack = stack
        self._objects = folder / "objects"
        self._replaced: deque[tuple[float, Path]] = deque()

    def open(self) -> Self:
        """Open the files.

        Raises:
            StateError: the state is of another version or stack, or is damaged.
            OSError: the disk does not take what is to be written, such as a full one.
        """
        self._objects.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._database = sqlite3.connect(
            self.folder / "state.db", check_same_thread=False, isolation_level=None
        )
        try:
            # No file is synchronized: a killed process loses nothing, and a crash of the machine
            # the last moments.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._check_version()
            self._prune()
        except sqlite3.DatabaseError as error:
            self._database.close()
            if cannot_write(error):
                raise OSError(
                    errno.EIO, f"cannot be written ({error}): is its disk full?", str(self.folder)
                ) from error
            raise StateError(f"the state in {self.folder} cannot be read ({error})") from error
        except StateError:
            self._database.close()
            raise
        return self

    def close(self) -> None:
        with self.lock:
            self.recording = False
            self._database.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One change: all that is written in the block, or nothing of it."""
        with self.lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # SQLite ends it itself where the disk is full
                    self._database.execute("ROLLBACK")
                raise

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.lock:
            return self._database.execute(query).fetchall()

    def new_file(self) -> str:
        """The name of a file for the content of an object; it does not exist yet."""
        name = uuid.uuid4().hex
        folder = self._objects / name[:2]
        folder.mkdir(mode=0o700, exist_ok=True)
        return f"{name[:2]}/{name}"

    def path(self, file: str) -> Path:
        return self._objects / file

    def discard(self, files: set[str]) -> None:
        """Remove files that no object has any more, once none can be reading them."""
        now = time.monotonic()
        with self.lock:
            self._replaced.extend((now, self.path(file)) for file in files)
            while self._replaced and self._replaced[0][0] < now - _KEEP_REPLACED_S:
                self._replaced.popleft()[1].unlink(missing_ok=True)

    def _check_version(self) -> None:
        mine = {"format": str(_FORMAT), "moto": moto.__version__, "stack": self._stack}
        tables = self._database.execute("SELECT name FROM sqlite_master").fetchall()
        if tables:
            theirs = dict(self._database.execute("SELECT name, value FROM about").fetchall())
            if theirs != mine:
                raise StateError(
                    f"the state in {self.folder} is of another version or stack "
                    f"({_named(theirs)}; this is {_named(mine)})"
                )
        self._database.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
        self._database.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", mine.items())

    def _prune(self) -> None:
        """Remove what is too old, and files that a killed process left without an object."""
        now = time.time()
        with self.writing() as database:
            database.execute("DELETE FROM execution WHERE started < ?", (now - _EXECUTIONS_FOR_S,))
            database.execute("DELETE FROM log WHERE at < ?", (now - _LOGS_FOR_S,))
        known = {
            file for (file,) in self.rows("SELECT file FROM object UNION SELECT file FROM part")
        }
        for path in self._objects.glob("*/*"):
            if path.relative_to(self._objects).as_posix() not in known:
                path.unlink()


def begin_anew(work_dir: Path) -> None:
    """Remove the state of earlier starts."""
    shutil.rmtree(work_dir / FOLDER, ignore_errors=True)


def _named(about: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(about.items()))
