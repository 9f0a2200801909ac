"""From how a job's code ends, by an exception or an exit, to an outcome.

That is its class, a text that names the cause, and the exit code. Imports no Spark.
"""

import errno
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from longhaul.core.aws_errors import code_of, is_denied
from longhaul.core.errors import DeniedError, LeaseChangedError, PermanentError
from longhaul.core.verdict import ExitCode, OutcomeClass, searchable, shorten
from longhaul.job import PermanentJobError
from longhaul.runner.io.staged import OutOfDiskError
from longhaul.runner.io.written import NoOutputError
from longhaul.runner.masking import NO_MASK, Mask
from longhaul.runner.stopping import Stop, StopReason, Unwound, end_process


@contextmanager
def needed_by_each_job(what: str) -> Iterator[None]:
    """Calls that each job's task makes, so that no job is at fault where a policy denies one.

    Raises:
        DeniedError: a policy denies the task `what`.
    """
    try:
        yield
    except ClientError as error:
        if not is_denied(error):
            raise
        raise DeniedError(f"AWS denies the task {what}: {error}") from error


@dataclass(frozen=True)
class Failure:
    kind: OutcomeClass
    error: str

    @property
    def exit_code(self) -> ExitCode:
        """What settle goes by where the row does not say the kind."""
        return _EXIT_CODES.get(self.kind, ExitCode.FAILED)


_EXIT_CODES: Final = {
    OutcomeClass.PERMANENT: ExitCode.PERMANENT,
    OutcomeClass.SUPERSEDED: ExitCode.SUPERSEDED,
    OutcomeClass.REFUSED: ExitCode.DENIED,
    OutcomeClass.OUT_OF_MEMORY: ExitCode.OUT_OF_MEMORY,
    OutcomeClass.OUT_OF_DISK: ExitCode.OUT_OF_DISK,
    OutcomeClass.INTERRUPTED: ExitCode.INTERRUPTED,
    OutcomeClass.CANCELLED: ExitCode.INTERRUPTED,
}
_STOPPED: Final = {
    StopReason.TERMINATED: OutcomeClass.INTERRUPTED,
    StopReason.SUPERSEDED: OutcomeClass.SUPERSEDED,
    StopReason.CANCELLED: OutcomeClass.CANCELLED,
    StopReason.DEADLINE: OutcomeClass.TIMED_OUT,
    StopReason.JVM_DIED: OutcomeClass.FAILED,
    StopReason.OUT_OF_MEMORY: OutcomeClass.OUT_OF_MEMORY,
    StopReason.UNREPORTABLE: OutcomeClass.INTERRUPTED,
}
# The first that fits.
_KINDS: Final[Sequence[tuple[type[BaseException], OutcomeClass]]] = (
    (NoOutputError, OutcomeClass.NO_OUTPUT),
    (PermanentError, OutcomeClass.PERMANENT),
    (LeaseChangedError, OutcomeClass.SUPERSEDED),
    (DeniedError, OutcomeClass.REFUSED),
    (MemoryError, OutcomeClass.OUT_OF_MEMORY),
    (OutOfDiskError, OutcomeClass.OUT_OF_DISK),
)
_ERRNOS: Final = {
    errno.ENOSPC: OutcomeClass.OUT_OF_DISK,
    errno.ENAMETOOLONG: OutcomeClass.PERMANENT,  # most often of a partition's value
}

_OUT_OF_MEMORY: Final = re.compile(
    r"java\.lang\.OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY"
)
# As the last line of a worker's traceback: Python's own, or one of a library that derives from it.
_MEMORY_ERROR: Final = re.compile(r"[\w.]*MemoryError\b")
# The kernel kills a worker that takes too much memory. A segfault looks the same to Spark, and is
# rarer: then each retry, which there would be as well, has a larger size than it needs.
_WORKER_DIED: Final = "Python worker exited unexpectedly (crashed)"
_EXECUTOR_LOST: Final = "ExecutorLostFailure"
# Of an executor: its JVM ended itself (52 is Spark's code for that), or its container was killed:
# in YARN's words, or in those of EMR Serverless for any worker.
_EXECUTOR_OUT_OF_MEMORY: Final = re.compile(
    r"exited with code (?:52|137)\b|[Ee]xit code:? (?:is )?(?:52|137)\b|exceeding memory limits"
    r"|memory usage exceeded"
)
_OUT_OF_DISK: Final = "No space left on device"
_THROTTLED: Final = re.compile(
    r"Throttl|SlowDown|TooManyRequests|RequestLimitExceeded|ProvisionedThroughputExceeded"
    r"|RequestTimeout"
)
_NOT_INSTALLED: Final = re.compile(
    r"(?:[\w.]+Error: )?(?:\[PACKAGE_NOT_INSTALLED\] (\S+) >= (\S+) must be installed"
    r"|No module named '(\w+))"
)
_SERVER_ERROR: Final = 500
# What follows is for the logs: stacks, and the text of the query.
_NOISE: Final = re.compile(
    r"\n[ \t]*(?:at [\w.$/<>]+\(|Driver stacktrace:|JVM stacktrace:|== SQL|\.\.\. \d+ more)"
)
# Spark's words before the cause: `most recent failure: Lost task 0.3 in stage 1.0 (TID 4) (10.0.0.7
# executor 1): `.
_TASK_FAILURE: Final = ("most recent failure: Lost task ", "(", " executor ", "): ")
_CAUSED_BY: Final = "\nCaused by: "
_FRAME: Final = re.compile(r"\n[ \t]*at ")
_LAST_LINE: Final = re.compile(
    r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning))(?:: .*)?$", re.MULTILINE
)


def of_stop(stop: Stop, mask: Mask = NO_MASK) -> Failure:
    """The failure of an attempt that was stopped; `mask` as in `of_error`."""
    if stop.reason is None:
        raise AssertionError("no stop was requested")
    return Failure(_STOPPED[stop.reason], _shorten(mask(stop.detail)))


def of_error(error: BaseException, mask: Mask = NO_MASK) -> Failure:
    """The failure of an attempt whose work raised. `mask` cuts out the secrets of the stage."""
    # Before anything is left out: half a value would not be found.
    raw = text_of(error)
    said = mask(raw)
    text = _shorten(cause(error, said)) if said.strip() else _without_text(error)
    kind = _kind_of(error, searchable(raw), text)
    if kind is OutcomeClass.FAILED and (with_line := with_requirement(text)) != text:
        return Failure(OutcomeClass.PERMANENT, with_line)
    return Failure(kind, text)


def _kind_of(error: BaseException, raw: str, text: str) -> OutcomeClass:
    """By the error's class and its own text, or by `text`, its cause."""
    for class_, kind in _KINDS:
        if isinstance(error, class_):
            return kind
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return _ERRNOS[error.errno]
    if isinstance(error, ClientError | BotoCoreError) and _is_trouble_of_aws(error):
        return OutcomeClass.INTERRUPTED
    if _is_out_of_memory(raw, text):
        return OutcomeClass.OUT_OF_MEMORY
    # Of the JVM, or of a Python worker.
    return OutcomeClass.OUT_OF_DISK if _OUT_OF_DISK in raw else OutcomeClass.FAILED


def with_requirement(text: str) -> str:
    """The text; if it says that a package is missing, with the line that installs it."""
    found = _NOT_INSTALLED.match(text)
    if found is None:
        return text
    package, least, module = found.groups()
    line = f"{package.lower()}>={least}" if package else module
    return f"{text.rstrip('.')}: a line in requirements.txt adds it, such as {line}"


def text_of(error: BaseException) -> str:
    """What the error says of itself; nothing where its class, which may be people's, fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - theirs may raise anything
        return ""


def _without_text(error: BaseException) -> str:
    """Its class and its place, as in `AssertionError without a message, at clean.py:12`."""
    frames = list(traceback.walk_tb(error.__traceback__))
    name = f"{type(error).__name__} without a message"
    if not frames:
        return name
    frame, line = frames[-1]
    return f"{name}, at {Path(frame.f_code.co_filename).name}:{line}"


def _is_trouble_of_aws(error: ClientError | BotoCoreError) -> bool:
    """Whether AWS failed in spite of the SDK's retries: the next attempt may do better."""
    if isinstance(error, BotoCoreError):
        return isinstance(
            error, HTTPClientError
        )  # connections and timeouts; all else is a wrong call
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= _SERVER_ERROR or bool(_THROTTLED.search(code_of(error)))


def _is_out_of_memory(text: str, cause_: str) -> bool:
    return (
        bool(_OUT_OF_MEMORY.search(text))
        or bool(_MEMORY_ERROR.match(cause_))
        or cause_ == _WORKER_DIED
        or any(
            _EXECUTOR_OUT_OF_MEMORY.search(line.partition(_EXECUTOR_LOST)[2])
            for line in text.split("\n")
        )
    )


def cause(error: BaseException, said: str) -> str:
    """The last line of a Python traceback, a worker's end, or Spark's message without stacks.

    `said` is the error's text.
    """
    if isinstance(error, PermanentError):
        return said or type(error).__name__
    text = searchable(said)
    if "Traceback (most recent call last)" in text:  # of a Python worker, quoted by Spark
        last_lines: list[str] = _LAST_LINE.findall(
            text.rpartition("Traceback (most recent call last)")[2]
        )
        if last_lines:
            return last_lines[0]
    if _WORKER_DIED in text:  # what Spark says it was caused by is its broken pipe to the worker
        return _WORKER_DIED
    found, last_cause = f"\n{text}".rpartition(_CAUSED_BY)[1:]
    if found:
        return _FRAME.split(last_cause, maxsplit=1)[0]
    task_failure = _after(text, _TASK_FAILURE)
    if task_failure is not None:
        return _NOISE.split(task_failure, maxsplit=1)[0]
    brief = _NOISE.split(text, maxsplit=1)[0]
    if not brief.strip():
        return type(error).__name__
    # Spark's own begin with their condition, such as [DIVIDE_BY_ZERO].
    return brief if _is_of_spark(error) else f"{type(error).__name__}: {brief}"


def _is_of_spark(error: BaseException) -> bool:
    """Whether it is a `PySparkException`, which is not imported for that."""
    return any(each.__module__.startswith("pyspark.errors") for each in type(error).__mro__)


def _after(text: str, words: Sequence[str]) -> str | None:
    """What follows the last of these words, each searched for after the one before."""
    for word in words:
        _, found, text = text.partition(word)
        if not found:
            return None
    return text


def _shorten(text: str) -> str:
    return shorten(text.strip())


logger = logging.getLogger(__name__)


class ExitError(Exception):
    """The job ended itself with an exit code that is not 0, or as if from outside."""


@contextmanager
def heeding_exits() -> Iterator[None]:
    """Let `sys.exit` end the job's code with an outcome, and a process that it has forked.

    Such a process has all of the runner's state, and would clear up, publish, or end Spark's JVM.

    Raises:
        PermanentJobError: the code exits with 65.
        ExitError: it exits with another code than 0, or ends with what is no `Exception`.
        Exception: as the code raises it.
    """
    runner = os.getpid()
    code: object = None
    try:
        yield
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        if os.getpid() != runner:
            logger.exception("a process that the job has forked failed")
            end_process(1)
        # Such as KeyboardInterrupt, or what asyncio raises for a task that is cancelled.
        if not isinstance(error, Exception | Unwound):
            said = f": {error}" if str(error) else ""
            raise ExitError(f"the job ended with {type(error).__name__}{said}") from error
        raise
    if os.getpid() != runner:
        end_process(code if isinstance(code, int) else int(code is not None))
    match code:
        case None | 0:
            return
        case ExitCode.PERMANENT:
            raise PermanentJobError(
                f"the job exited with {int(ExitCode.PERMANENT)}: it cannot succeed"
            )
    raise ExitError(f"the job exited with {code}")


def may_be_jvm_death(error: BaseException) -> bool:
    """Whether it may be one: a broken connection rather than an answer."""
    if isinstance(error, ConnectionError):
        return True
    py4j = sys.modules.get("py4j.protocol")  # without it nothing can have raised its errors
    return py4j is not None and (
        isinstance(error, py4j.Py4JNetworkError)
        or (isinstance(error, py4j.Py4JError) and not isinstance(error, py4j.Py4JJavaError))
    )
