"""Tries something in a forked process, with a time limit."""

import math
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

_POLL_S = 0.01
_BUSY = 20.0  # times its CPU time a process may take on a busy machine
_IDLE_S = 20.0  # for which it may wait; without a mutation no test waits so long

Outcome = Literal["survived", "killed", "hung", "not applied"]
_CODES: dict[int, Outcome] = {0: "survived", 3: "not applied"}
NOT_APPLIED = 3


class Tried(NamedTuple):
    outcome: Outcome
    by: str  # what has killed it


def tried(attempt: Callable[[Callable[[str], None]], int], limit_s: float) -> Tried:
    """Fork, and run `attempt` in the child.

    Args:
        attempt: Returns the exit code: 0 when all went well. It gets a function that says what
            found the mutation.
        limit_s: Seconds of CPU; a child that needs more is hung in a loop.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _be_silent()
        end_this_process_after(limit_s)
        code = 1
        try:
            code = attempt(lambda text: _say(write, text))
        except BaseException as error:  # noqa: BLE001 - any error is a find
            _say(write, f"{type(error).__name__}: {error}")
        finally:
            os._exit(code)
    os.close(write)
    ended = _waited(child, _BUSY * limit_s)
    with os.fdopen(read, "rb") as said:
        by = said.read().decode(errors="replace").strip()
    if ended is None or ended == -signal.SIGXCPU:
        return Tried("hung", f"more than {limit_s:.0f} s")
    return Tried(_CODES.get(ended, "killed"), by)


def end_this_process_after(cpu_s: float) -> None:
    """End it with SIGXCPU when it has worked for that many seconds more."""
    most_s = math.ceil(time.process_time() + cpu_s)
    _, hardest = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (most_s, hardest))


def _waited(child: int, limit_s: float) -> int | None:
    """The child's exit code; None when it was ended for taking too long."""
    began = busy_at = time.monotonic()
    worked = -1
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        now, before, (sleeps, worked) = time.monotonic(), worked, _activity(child)
        if worked > before or not sleeps:
            busy_at = now
        if now - began > limit_s or now - busy_at > _IDLE_S:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(_POLL_S)


def _activity(process: int) -> tuple[bool, int]:
    """Whether it sleeps, and the clock ticks that it has worked."""
    state, *numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return state == "S", int(numbers[10]) + int(numbers[11])


def _say(pipe: int, text: str) -> None:
    os.write(pipe, text.partition("\n")[0][:300].encode() + b"\n")


def _be_silent() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
