"""What Lambda runs: `python -m awslambdaric longhaul.engines.aws_lambda.runner.lambda_handler`.

Each job gets a Python process of its own, `python -m longhaul.engines.aws_lambda.runner`, or where
no JVM boots meanwhile, a fork of the handler's, which has imported what it needs. The JVM
beside it is kept for the next job of the same stage and catalogue job, if this one ended well
(`longhaul.runner.spark.kept`). A job without Spark has none beside it, and code that a message
brought along starts its own once it is known to need one. All other processes are killed, and all
files deleted, before the invocation ends: the environment may serve the next job of its stage.

The environment: TMPDIR names the function's only writable folder, LONGHAUL_SETTINGS the settings.
"""

import ctypes
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol
from uuid import uuid4

import psutil

from longhaul.domain.lease import AttemptId
from longhaul.engines.aws_lambda.ends import MIB_PER_VCPU, ended, reference
from longhaul.runner import json_logs
from longhaul.runner.job_file import may_need_no_spark
from longhaul.runner.resources import Resources, resources
from longhaul.runner.spark.gateway import CONNECTION, ENDED, Gateway, LateGateway, printable
from longhaul.runner.stopping import exit_with
from longhaul.runner.task import Task

if TYPE_CHECKING:
    from longhaul.runner.spark.kept import KeptGateway

_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)
# Before Lambda ends the invocation: time to kill what runs, and to say so.
_MARGIN_S: Final = 5.0
_SIGNAL_EXIT_BASE: Final = 128
_OWNERS: Final = 0o700
# Its heap keeps a little of every job.
_MAX_JOBS: Final = 100


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


@dataclass
class WarmJvm:
    """A JVM, for jobs of one stage and one name of the catalogue."""

    folder: Path
    gateway: Gateway
    serves: tuple[str, str | None]
    jobs: int = 0

    @classmethod
    def start(cls, folder: Path, limits: Resources, serves: tuple[str, str | None]) -> "WarmJvm":
        """Start the JVM, with a folder of its own below `folder`."""
        own = Path(tempfile.mkdtemp(prefix="jvm-", dir=folder))
        gateway = Gateway(own, limits)

        def write(code: int) -> None:
            own.mkdir(exist_ok=True)
            (own / ENDED).write_text(str(code))

        gateway.on_death(write)
        return cls(own, gateway, serves)

    def arguments(self) -> list[str]:
        """Of `main`, for one more job."""
        self.jobs += 1
        used = ["used"] if self.jobs > 1 else []
        return [str(self.folder), str(self.gateway.pid), str(self.gateway.output), *used]

    @property
    def may_go_on(self) -> bool:
        """Whether another job may run in it."""
        return (
            self.serves[1] is not None
            and self.jobs < _MAX_JOBS
            and self.gateway.is_alive
            and _reuse_allowed()
        )


class Forked:
    """The process of a job beside which no JVM boots: with the runner's modules loaded already.

    Their import takes longer than anything else until the job's first line. With a JVM nothing is
    gained, which boots meanwhile; and then there are threads, with which no process should fork.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it, with the arguments of `main`."""
        from longhaul.runner import wiring  # noqa: F401, PLC0415 - once for all jobs

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


def _children() -> list[int]:
    return [each.pid for each in psutil.Process().children(recursive=True)]


@dataclass
class ExecutionEnvironment:
    """What is left of an invocation for the next one."""

    jvm: WarmJvm | None = None
    # No job's: they were there before the first.
    spared: frozenset[int] = field(default_factory=lambda: frozenset(_children()))
    _popen: Any = field(default=subprocess.Popen)
    _fork: Any = field(default_factory=lambda: Forked)

    def run(self, event: dict[str, Any], context: InvocationContext) -> None:
        """Run the job of an execution's input.

        Raises:
            JobEnded: the job failed. Its row says how, if the runner got that far.
            NotCleanError: files of an earlier job cannot be deleted. No job is started beside them.
        """
        folder = Path(os.environ["TMPDIR"])
        remaining_s = context.get_remaining_time_in_millis() / 1000
        until = datetime.now(UTC) + timedelta(seconds=remaining_s)
        task = reference(context.invoked_function_arn, context.aws_request_id, until)
        memory = int(context.memory_limit_in_mb)
        code: int | None = None
        # Here, and not after the job before: its own end is what its invocation reports.
        if self._cleaned():
            raise NotCleanError("files of an earlier job are left in this environment")
        try:
            jvm = self._jvm_for(event, folder, _resources(memory))
            code = self._run_process(
                event,
                [task, str(memory), *(jvm.arguments() if jvm else ())],
                jvm,
                remaining_s - _MARGIN_S,
            )
        finally:
            if code == 0 and self.jvm and self.jvm.may_go_on:
                self._cleaned()
            else:
                self.end()
        if code:
            status = code if code > 0 else _SIGNAL_EXIT_BASE - code
            raise JobEnded(f"exit code {status}", task)

    def _jvm_for(self, event: dict[str, Any], folder: Path, limits: Resources) -> WarmJvm | None:
        """The JVM for the job; None for one that may need none, which has the memory to itself."""
        if may_need_no_spark(event.get("job")):
            if self.jvm:
                self.end()
            return None
        serves = (str(event["stage"]), event.get("job"))
        if self.jvm and (self.jvm.serves != serves or not self.jvm.may_go_on):
            self.end()
        if self.jvm is None:
            self.jvm = WarmJvm.start(folder, limits, serves)
        return self.jvm

    def _cleaned(self) -> set[Path]:
        """Delete what a job left; returns what stays. The JVM is ended where its folder does."""
        left = clean(Path(os.environ["TMPDIR"]), self.jvm, self.spared)
        return self.end() if self.jvm and self.jvm.folder in left else _of_jobs(left)

    def end(self) -> set[Path]:
        """Keep nothing; returns files of jobs that stay."""
        if self.jvm:
            self.jvm.gateway.stop()
        self.jvm = None
        return _of_jobs(clean(Path(os.environ["TMPDIR"]), None, self.spared))

    def _run_process(
        self, event: dict[str, Any], arguments: list[str], jvm: WarmJvm | None, limit_s: float
    ) -> int:
        names = {f"LONGHAUL_{name.upper()}": str(event[name]) for name in ("key", "run", "attempt")}
        process = (
            self._popen(
                [sys.executable, "-m", "longhaul.engines.aws_lambda.runner", *arguments],
                env=os.environ | names,
                stdin=subprocess.DEVNULL,
                pass_fds=[jvm.gateway.output],
            )
            if jvm
            else self._fork(arguments, os.environ | names)
        )
        try:
            return int(process.wait(max(0.0, limit_s)))
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

    It has no setting for that. Errors of other kinds it prints as ever.
    """
    from awslambdaric import bootstrap  # noqa: PLC0415 - there in Lambda, as what called us

    if not isinstance(bootstrap.log_error, _ErrorLog):
        bootstrap.log_error = _ErrorLog(bootstrap.log_error)


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


def clean(folder: Path, kept: WarmJvm | None, spared: frozenset[int]) -> set[Path]:
    """Kill every process that was started since but the JVM that is kept, and delete all files.

    The JVM's own folders stay: Spark has noted that they are there. Returns what else is left in
    `folder`, because it could not be deleted; with the JVM's folder where its files could not be.
    """
    while children := list(_processes({*spared, kept.gateway.pid} if kept else spared)):
        for each in children:
            each.kill()
        psutil.wait_procs(children)
    if kept:
        drain(kept.gateway.output)
    failed = set()
    for left in list(folder.iterdir()):
        try:
            # Not followed: a link may lead to where we may not even look.
            if left.is_symlink() or not left.is_dir():
                left.unlink()
            elif kept and left == kept.folder:
                _empty(left)
            else:
                _delete(left)
        except OSError:
            failed.add(left)
    is_kept = {kept.folder} - failed if kept else set()
    return set(folder.iterdir()) - is_kept


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


def _empty(folder: Path) -> None:
    """Delete the files of the JVM's folder.

    Raises:
        OSError: a folder below it is not to be opened, or so deep that it has no path.
    """
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        here.chmod(_OWNERS)
        for each in list(here.iterdir()):
            if not each.is_symlink() and each.is_dir():
                waiting.append(each)
            elif each != folder / CONNECTION:
                each.unlink()


def _of_jobs(left: set[Path]) -> set[Path]:
    """Jobs run as the user that we are: what belongs to another was there before them."""
    return {each for each in left if each.lstat().st_uid == os.getuid()}


def drain(output: int) -> None:
    """Print what the JVM said last: the next job's process would log it as its own."""
    os.set_blocking(output, False)
    said = b""
    try:
        while more := os.read(output, 65_536):
            said += more
    except BlockingIOError:
        pass
    finally:
        os.set_blocking(output, True)
    for line in said.decode(errors="replace").splitlines():
        sys.stderr.write(f"{printable(line)}\n")


def _processes(spared: Collection[int]) -> Iterator[psutil.Process]:
    for each in psutil.Process().children(recursive=True):
        try:
            # The JVM reaps those that were its own.
            is_left_to_it = each.status() == psutil.STATUS_ZOMBIE and each.ppid() != os.getpid()
            if not is_left_to_it and each.pid not in spared:
                yield each
        except psutil.NoSuchProcess:
            continue


def _reuse_allowed() -> bool:
    from longhaul.settings import runtime_settings  # noqa: PLC0415 - not while a JVM could boot

    return runtime_settings().tasks.reuse


def _resources(memory_mib: int) -> Resources:
    return resources(memory_mib / MIB_PER_VCPU, memory_mib)


def main(task_ref: str, memory_mib: str, *jvm: str) -> int:
    """Carry out the attempt that the environment names, and return the exit code.

    `jvm`: the folder, process, output and use of one that is kept; nothing for a job without.
    """
    # Not needed by the handler.
    from longhaul.adapters.background import Threads  # noqa: PLC0415
    from longhaul.runner.stopping import Stop, end_when_stopped, stop_on_sigterm  # noqa: PLC0415
    from longhaul.runner.wiring import invocation_attempt, task_attempt  # noqa: PLC0415

    stop, background = Stop(), Threads()
    stop_on_sigterm(stop, background)
    scratch = Path(tempfile.mkdtemp(prefix="longhaul-"))
    task = Task(task_ref, _resources(int(memory_mib)))
    own, kept = LateGateway(scratch, task.resources), _kept(*jvm) if jvm else None
    code = 1
    try:
        attempt = (
            invocation_attempt(task, kept, scratch, stop, background)
            if kept
            else task_attempt(task, own, scratch, stop, background)
        )
        end_when_stopped(attempt)
        code = int(attempt.run())
    finally:
        own.stop()
        if code and kept:
            kept.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return code


def _kept(folder: str, pid: str, output: str, *used: str) -> "KeptGateway":
    from longhaul.runner.spark.kept import KeptGateway  # noqa: PLC0415 - imports PySpark

    return KeptGateway(Path(folder), int(pid), int(output), is_used=bool(used))


if __name__ == "__main__":
    exit_with(lambda: main(*sys.argv[1:]))
