"""What Lambda runs: `python -m awslambdaric jobs.lambda_runner.lambda_handler`.

Each job gets a process and a JVM of its own, `python -m jobs.lambda_runner`, so that nothing of a
job is left in the memory of a warm environment. Its processes are killed and its files deleted
before the invocation ends: the environment may serve the next job, which may be another stage's.

The environment: TMPDIR names the function's only writable folder, LONGHAUL_SETTINGS the settings.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import psutil

from longhaul.domain.engines.aws_lambda import MIB_PER_VCPU, reference

_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)
# Before Lambda ends the invocation: time to kill what runs, and to say so.
_MARGIN_S: Final = 5.0
_SIGNAL_EXIT_BASE: Final = 128


class JobEnded(Exception):  # noqa: N818 - its name is the error that settle reads
    """The runner ended with another exit code than 0, which the message names."""


class Context(Protocol):
    aws_request_id: str
    invoked_function_arn: str
    memory_limit_in_mb: str

    def get_remaining_time_in_millis(self) -> int: ...


def lambda_handler(event: dict[str, Any], context: Context) -> dict[str, str]:
    """Run the job of an execution's input.

    Raises:
        JobEnded: the job failed. Its row says how, if the runner got that far.
    """
    adopt_orphans()
    folder = Path(os.environ["TMPDIR"])
    remaining_s = context.get_remaining_time_in_millis() / 1000
    until = datetime.now(UTC) + timedelta(seconds=remaining_s)
    task = reference(context.invoked_function_arn, context.aws_request_id, until)
    memory_mib = str(context.memory_limit_in_mb)
    names = {f"LONGHAUL_{name.upper()}": str(event[name]) for name in ("key", "run", "attempt")}
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "jobs.lambda_runner", task, memory_mib],
            env=os.environ | names | {"HOME": str(folder), "SPARK_LOCAL_DIRS": str(folder)},
            stdin=subprocess.DEVNULL,
        )
        try:
            code = process.wait(max(0.0, remaining_s - _MARGIN_S))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise JobEnded("the runner did not end in time, and was killed") from None
    finally:
        clean(folder)
    if code:
        raise JobEnded(f"exit code {code if code > 0 else _SIGNAL_EXIT_BASE - code}")
    return {}


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent ends, so that `clean` finds them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def clean(folder: Path) -> None:
    """Kill every process that was started here, and empty the folder."""
    while children := psutil.Process().children(recursive=True):
        for each in children:
            each.kill()
        psutil.wait_procs(children)
    for left in folder.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def main(task_ref: str, memory_mib: str) -> int:
    """Carry out the attempt that the environment names, and return the exit code."""
    from jobs.runner import carry_out  # noqa: PLC0415 - not needed by the handler
    from jobs.task import Task, resources  # noqa: PLC0415 - as above

    memory = int(memory_mib)
    return carry_out(lambda: Task(task_ref, resources(memory / MIB_PER_VCPU, memory)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
