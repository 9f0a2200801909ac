"""The files of the state: a database of SQLite, and beside it the contents of objects."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import errno
import pickle
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Self

import moto

if TYPE_CHECKING:
    from longhaul.local.moto_repairs.patching import Patches

FOLDER: Final = "state"
# Raised with each change of what the table holds.
_FORMAT: Final = 3
# `number` keeps the order in which things came, and `at` the time.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS thing (
    number INTEGER PRIMARY KEY, kind TEXT, name TEXT, data BLOB, at REAL, UNIQUE (kind, name)
);
"""
_PUT: Final = """
INSERT INTO thing (kind, name, data, at) VALUES (?, ?, ?, ?)
ON CONFLICT (kind, name) DO UPDATE SET data = excluded.data WHERE data != excluded.data
"""
# Executions as long as AWS keeps them. Logs as long as the stack's own usually are.
_KEPT_FOR_S: Final = {"execution": 90 * 86_400, "log": 30 * 86_400}

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
    """Things by kind and name, written from any thread. One process at a time opens a folder."""

    def __init__(self, folder: Path, stack: str) -> None:
        """`stack` is the name of the one stack whose state this is."""
        self.folder = folder
        self.objects = folder / "objects"
        self.contents: dict[str, set[Path]] = {}
        """By object, its files."""
        self.recording = False
        """Whether changes are kept. What a start itself makes is not."""
        self.lock = RLock()
        """Held from before a thing is read until it is put, so that the newest is put last."""
        self._stack = stack

    def open(self) -> Self:
        """Open the files.

        Raises:
            StateError: the state is of another version or stack, or is damaged.
            OSError: the disk does not take what is to be written, such as a full one.
        """
        self.objects.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._database = sqlite3.connect(self.folder / "state.db", check_same_thread=False)
        try:
            # No file is synchronized: a killed process loses nothing, and a crash of the machine
            # the last moments.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._check_version()
            with self._database as database:
                for kind, seconds in _KEPT_FOR_S.items():
                    too_old = (kind, time.time() - seconds)
                    database.execute("DELETE FROM thing WHERE kind = ? AND at < ?", too_old)
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

    def put(self, kind: str, things: Mapping[str, Any]) -> None:
        """Keep things of a kind, and forget those that are None: all of them or, at an error, none.

        What is put while nothing is recorded is not kept.
        """
        with self.lock:
            if not self.recording or not things:
                return
            with self._database as database:
                for name, thing in things.items():
                    if thing is None:
                        key = (kind, name)
                        database.execute("DELETE FROM thing WHERE kind = ? AND name = ?", key)
                    else:
                        database.execute(_PUT, (kind, name, pickle.dumps(thing), time.time()))

    def things(self, kind: str, name: str | None = None) -> Iterator[tuple[str, Any]]:
        """Name and value of the things of a kind, or of the one with this name, oldest first."""
        query = "SELECT name, data FROM thing WHERE kind = ? AND name = ifnull(?, name)"
        with self.lock:
            rows = self._database.execute(f"{query} ORDER BY number", (kind, name)).fetchall()
        for found, data in rows:
            yield found, pickle.loads(data)  # noqa: S301 - of a folder of the user's own

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
        with self._database as database:
            database.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", mine.items())


def keep_after(
    patches: "Patches", store: Store, owner: Any, name: str, keep: Callable[..., None]
) -> None:
    """Keep what a method of moto's has changed, also after an error: it may be done in part.

    Args:
        patches: takes the replaced method.
        store: the changes are kept there, under its lock.
        owner: the class of the method.
        name: its name.
        keep: called with the object and the positional arguments of the call.
    """
    stock = getattr(owner, name)

    def call(one: Any, *args: Any, **named: Any) -> Any:
        try:
            return stock(one, *args, **named)
        finally:
            if store.recording:
                with store.lock:
                    keep(one, *args)

    patches.replace(owner, name, call)


def begin_anew(work_dir: Path) -> None:
    """Remove the state of earlier starts."""
    shutil.rmtree(work_dir / FOLDER, ignore_errors=True)


def _named(about: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(about.items()))
