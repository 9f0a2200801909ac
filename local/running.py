"""Where the embedded AWS that runs on this machine is: a small file in its work directory, which the command line reads."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from local.synth import REPOSITORY

DEFAULT_WORK_DIR = REPOSITORY / ".longhaul"
REGION = "us-east-1"
FILE = "up.json"
# A process's age is told in hundredths of a second.
_SAME_MOMENT_S = 1.0


@dataclass(frozen=True)
class Running:
    """One embedded AWS, and the process that is it. `started` (Unix time) tells it from a later process with its number."""

    endpoint: str
    region: str
    stack: str
    pid: int
    started: float

    @property
    def is_alive(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return process.is_running() and abs(process.create_time() - self.started) < _SAME_MOMENT_S
        except psutil.Error:
            return False


def announce(work_dir: Path, *, endpoint: str, region: str, stack: str) -> None:
    """Say that this process is an embedded AWS. The file is whole or not there."""
    me = psutil.Process()
    running = Running(endpoint, region, stack, me.pid, me.create_time())
    partial = work_dir / f"{FILE}.{me.pid}"
    partial.write_text(json.dumps(asdict(running)) + "\n")
    partial.replace(work_dir / FILE)


def withdraw(work_dir: Path) -> None:
    """Take back what this process announced; what another has announced since stays."""
    found = _read(work_dir)
    if found is not None and found.pid == psutil.Process().pid:
        with suppress(FileNotFoundError):
            (work_dir / FILE).unlink()


def find(work_dir: Path) -> Running | None:
    """The embedded AWS that was announced there and still lives. What a crash left is passed over."""
    found = _read(work_dir)
    return found if found is not None and found.is_alive else None


def _read(work_dir: Path) -> Running | None:
    try:
        return Running(**json.loads((work_dir / FILE).read_text()))
    except (OSError, ValueError, TypeError):  # none, or of another version
        return None
