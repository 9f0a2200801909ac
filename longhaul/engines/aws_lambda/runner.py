"""What Lambda runs: `python -m awslambdaric longhaul.engines.aws_lambda.runner.lambda_handler`.

Each job gets a process of its own, a fork of the handler's, which has imported what it needs, and
with Spark a JVM below that. All processes are killed, and all files deleted, before the invocation
ends: the environment may serve the next job of its stage.

The environment: TMPDIR names the function's only writable folder, LONGHAUL_SETTINGS the settings.
"""

import ctypes
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol
from uuid import uuid4

import psutil

from longhaul.core.background import Threads
from longhaul.core.lease import AttemptId
from longhaul.engines.aws_lambda.ends import MIB_PER_VCPU, ended, reference
from longhaul.runner import json_logs
from longhaul.runner.one_machine import carry_out
from longhaul.runner.resources import resources
from longhaul.runner.stopping import Stop, children, exit_with, stop_on_sigterm
from longhaul.runner.task import Task

_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)
# Before Lambda ends the invocation: time to kill what runs, and to say so.
_MARGIN_S: Final = 5.0
_SIGNAL_EXIT_BASE: Final = 128
_OWNERS: Final = 0o700


class JobEnded(Exception):  # noqa: N818 - its name is the error that settle reads
    """The runner ended with another exit code than 0, which the message names.

    Raised when nothing of the job runs any more: the next run may start.
    """

    def __init__(self, words: str, task_ref: str) -> None:
        super().__init__(ended(words, task_ref))
        self.words = words


class NotCleanError(Exception):
    """What an earlier job left cannot be deleted."""


class InvocationContext(Protocol):
    aws_request_id: str
    invoked_function_arn: str
    memory_limit_in_mb: str

    def get_remaining_time_in_millis(self) -> int: ...


class Forked:
    """The process of a job, with the runner's modules loaded already.

    Without a JVM their import takes longer than anything else until the job's first line.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it, with the arguments of `main`."""
        from longhaul.runner import wiring  # noqa: F401, PLC0415 - once for all jobs; needs settings

        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._begin(arguments, dict(environment))

    def _begin(self, arguments: Sequence[str], environment: dict[str, str]) -> NoReturn:
        def run() -> int:
            # As a program that is started has it.
            os.environ.clear()
            os.environ.update(environment)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            return main(*arguments)

        exit_with(run)

    def wait(self, timeout: float | None = None) -> int:
        """As `subprocess.Popen.wait`."""
        descriptor = os.pidfd_open(self.pid)
        try:
            if not select.select([descriptor], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("the runner", timeout or 0)
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        finally:
            os.close(descriptor)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


@dataclass
class ExecutionEnvironment:
    """What is left of an invocation for the next one: nothing of a job."""

    # No job's: they were there before the first.
    spared: frozenset[int] = field(
        default_factory=lambda: frozenset(each.pid for each in children())
    )
    _fork: Any = field(default_factory=lambda: Forked)

    def run(self, event: dict[str, Any], context: InvocationContext) -> None:
        """Run the job of an execution's input.

        Raises:
            JobEnded: the job failed. Its row says how, if the runner got that far.
            NotCleanError: files of an earlier job cannot be deleted. No job is started beside them.
        """
        remaining_s = context.get_remaining_time_in_millis() / 1000
        until = datetime.now(UTC) + timedelta(seconds=remaining_s)
        task = reference(context.invoked_function_arn, context.aws_request_id, until)
        # Here, and not after the job before: its own end is what its invocation reports.
        if self.cleaned():
            raise NotCleanError("files of an earlier job are left in this environment")
        try:
            code = self._run_process(event, [task, context.memory_limit_in_mb], remaining_s)
        finally:
            self.cleaned()
        if code:
            status = code if code > 0 else _SIGNAL_EXIT_BASE - code
            raise JobEnded(f"exit code {status}", task)

    def cleaned(self) -> set[Path]:
        """Delete what a job left; returns what stays. Jobs run as the user that we are."""
        left = clean(Path(os.environ["TMPDIR"]), self.spared)
        return {each for each in left if each.lstat().st_uid == os.getuid()}

    def _run_process(self, event: dict[str, Any], arguments: list[str], remaining_s: float) -> int:
        names = ("key", "run", "attempt", "job")
        named = {f"LONGHAUL_{each.upper()}": str(event[each]) for each in names if event.get(each)}
        process = self._fork(arguments, os.environ | named)
        try:
            return int(process.wait(max(0.0, remaining_s - _MARGIN_S)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            said = "the runner did not end in time, and was killed"
            raise JobEnded(said, arguments[0]) from None


_ENVIRONMENT: Final = ExecutionEnvironment()


def lambda_handler(event: dict[str, Any], context: InvocationContext) -> dict[str, str]:
    """As `ExecutionEnvironment.run`; ends the process where an earlier job's files stay."""
    adopt_orphans()
    leave_job_ends_to_us()
    os.environ["HOME"] = os.environ["TMPDIR"]
    try:
        _ENVIRONMENT.run(event, context)
    except JobEnded as error:
        _say(event, error.words)
        raise
    except NotCleanError as error:
        # Lambda would give this process the next job, and the next. The job is retried elsewhere.
        sys.exit(str(error))
    return {}


def leave_job_ends_to_us() -> None:
    """Keep the runtime from printing `JobEnded` with our frames, after the job's own error.

    It has no setting for that. Errors of other kinds it prints as ever. The runtime is what called
    us: in Lambda awslambdaric, and else the program that runs.
    """
    runtime: Any = sys.modules.get("awslambdaric.bootstrap") or sys.modules["__main__"]
    if not isinstance(runtime.log_error, _ErrorLog):
        runtime.log_error = _ErrorLog(runtime.log_error)


@dataclass(frozen=True)
class _ErrorLog:
    """The runtime's way to print an error of the function, for all but the ends of jobs."""

    print: Callable[[Mapping[str, Any], Any], None]

    def __call__(self, error: Mapping[str, Any], sink: Any) -> None:  # noqa: ANN401 - the runtime's
        if error.get("errorType") != JobEnded.__name__:
            self.print(error, sink)


def _say(event: Mapping[str, Any], words: str) -> None:
    """Print how the runner ended: one that was killed has said nothing itself."""
    attempt = AttemptId(str(event["key"]), int(event["run"]), int(event["attempt"]))
    line = json_logs.JsonFormatter(json_logs.fields(attempt))
    record = {"name": __name__, "levelname": "WARNING", "msg": f"the runner ended: {words}"}
    sys.stderr.write(f"{line.format(logging.makeLogRecord(record))}\n")
    sys.stderr.flush()


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent ends, so that `clean` finds them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def clean(folder: Path, spared: frozenset[int]) -> set[Path]:
    """Kill every process that was started since, and delete all files.

    Returns what is left in `folder`, because it could not be deleted.
    """
    while running := list(_processes(spared)):
        for each in running:
            each.kill()
        psutil.wait_procs(running)
    for left in list(folder.iterdir()):
        with suppress(OSError):
            # Not followed: a link may lead to where we may not even look.
            if left.is_symlink() or not left.is_dir():
                left.unlink()
            else:
                _delete(left)
    return set(folder.iterdir())


def _delete(folder: Path) -> None:
    """Delete a folder, closed ones below it, and any depth of them.

    The system takes no path of more than 4,096 characters, and Python's own way ends at a thousand
    levels. So the folders within one are moved up beside it, and each path stays short.
    """
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        here.chmod(_OWNERS)  # an archive's folders may be read-only
        for each in list(here.iterdir()):
            if each.is_symlink() or not each.is_dir():
                each.unlink()
                continue
            each.chmod(_OWNERS)  # its `..` changes
            beside = folder.with_name(f"deleted-{uuid4().hex}")
            waiting.append(each.rename(beside))
        here.rmdir()


def _processes(spared: Collection[int]) -> Iterator[psutil.Process]:
    for each in children():
        try:
            # The JVM reaps those that were its own.
            is_left_to_it = each.status() == psutil.STATUS_ZOMBIE and each.ppid() != os.getpid()
            if not is_left_to_it and each.pid not in spared:
                yield each
        except psutil.NoSuchProcess:
            continue


def main(task_ref: str, memory_mib: str) -> int:
    """Carry out the attempt that the environment names, and return the exit code."""
    stop, background = Stop(), Threads()
    stop_on_sigterm(stop, background)
    memory = int(memory_mib)
    return carry_out(Task(task_ref, resources(memory / MIB_PER_VCPU, memory)), stop, background)
