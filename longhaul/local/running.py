"""Announces a running embedded AWS: a small file in its work directory, for clients to read."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from longhaul.local.work_dir import ForeignFolderError, check_owner

LOOPBACK = "127.0.0.1"
REGION = "us-east-1"
FILE = "up.json"
# The kernel keeps start times in hundredths of a second; rounding is well below this.
_SAME_MOMENT_S = 1.0


@dataclass(frozen=True)
class Running:
    """An embedded AWS and its process.

    `started` (Unix time) tells the process from a later one with the same id.
    """

    endpoint: str
    region: str
    stack: str
    pid: int
    started: float

    @property
    def is_alive(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return (
                process.is_running() and abs(process.create_time() - self.started) < _SAME_MOMENT_S
            )
        except psutil.Error:
            return False


def announce(work_dir: Path, *, endpoint: str, region: str, stack: str) -> None:
    """Announce this process. The file appears whole or not at all."""
    me = psutil.Process()
    running = Running(endpoint, region, stack, me.pid, me.create_time())
    partial = work_dir / f"{FILE}.{me.pid}"
    partial.write_text(json.dumps(asdict(running)) + "\n")
    partial.replace(work_dir / FILE)


def withdraw(work_dir: Path) -> None:
    """Remove the announcement, unless another process has replaced it."""
    found = _read(work_dir)
    if found is not None and found.pid == psutil.Process().pid:
        with suppress(FileNotFoundError):
            (work_dir / FILE).unlink()


def find(work_dir: Path) -> Running | None:
    """The embedded AWS announced in the folder; None without one, or when its process is gone."""
    found = _read(work_dir)
    return found if found is not None and found.is_alive else None


def _read(work_dir: Path) -> Running | None:
    try:
        check_owner(work_dir)  # another user would get this user's requests
        return Running(**json.loads((work_dir / FILE).read_text()))
    except (ForeignFolderError, OSError, ValueError, TypeError):  # or of another version
        return None
