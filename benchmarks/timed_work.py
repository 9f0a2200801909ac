"""Work without Spark, for benchmarks of what is around it: it waits, and notes when.

The events go to the file that `TIMED_WORK_EVENTS` names, a line of JSON each.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

EVENTS = "TIMED_WORK_EVENTS"
FOREVER_S = 3600
"""How long an attempt that never ends sleeps at a time."""


class WorkError(RuntimeError):
    """What a job that fails raises."""


@dataclass(frozen=True)
class Work:
    """One job.

    Attributes:
        seconds: Each attempt waits so long.
        first_s: The first attempt waits so long instead.
        fails: The first attempt fails.
        hangs: The first attempt never ends.
    """

    id: str
    seconds: float = 0
    first_s: float | None = None
    fails: bool = False
    hangs: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def do(body: str, sleep: Callable[[float], object] = time.sleep) -> None:
    """Do the work of a message's body.

    Raises:
        WorkError: this attempt is to fail.
    """
    work = Work(**json.loads(body))
    is_first = not any(each["id"] == work.id for each in events(Path(os.environ[EVENTS])))
    _note("begin", work)
    if is_first and work.hangs:
        while True:
            sleep(FOREVER_S)
    sleep(work.first_s if is_first and work.first_s is not None else work.seconds)
    if is_first and work.fails:
        _note("fail", work)
        raise WorkError(work.id)
    _note("end", work)


def events(file: Path) -> list[dict[str, Any]]:
    """All events so far: `id`, `event`, the process's `pid`, and the time `at` in Unix seconds."""
    try:
        lines = file.read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


def _note(event: str, work: Work) -> None:
    line = {"id": work.id, "event": event, "pid": os.getpid(), "at": time.time()}
    # One write of a short line is never mixed with another process's.
    with Path(os.environ[EVENTS]).open("a") as file:
        file.write(json.dumps(line) + "\n")
