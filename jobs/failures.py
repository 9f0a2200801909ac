"""From an exception to an outcome: its class, a text for people with the cause first, and the exit code."""

import re
from dataclasses import dataclass
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from jobs.io.written import NoOutputError
from jobs.spark.errors import GatewayError
from jobs.stopping import Stop, StopReason
from longhaul.domain.errors import LeaseChangedError, PermanentError
from longhaul.domain.outcome import ExitCode, OutcomeClass, shorten


@dataclass(frozen=True)
class Failure:
    kind: OutcomeClass
    error: str
    exit_code: ExitCode


_STOPPED: Final = {
    StopReason.TERMINATED: (OutcomeClass.INTERRUPTED, ExitCode.INTERRUPTED),
    StopReason.SUPERSEDED: (OutcomeClass.SUPERSEDED, ExitCode.SUPERSEDED),
    StopReason.CANCELLED: (OutcomeClass.CANCELLED, ExitCode.INTERRUPTED),
    StopReason.DEADLINE: (OutcomeClass.TIMED_OUT, ExitCode.FAILED),
    StopReason.JVM_DIED: (OutcomeClass.FAILED, ExitCode.FAILED),
    StopReason.OUT_OF_MEMORY: (OutcomeClass.OUT_OF_MEMORY, ExitCode.OUT_OF_MEMORY),
    StopReason.UNREPORTABLE: (OutcomeClass.INTERRUPTED, ExitCode.INTERRUPTED),
}

_OUT_OF_MEMORY: Final = re.compile(
    r"java\.lang\.OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY"
    # Of an executor: its JVM ended itself (52 is Spark's own code for that), or its container was killed.
    r"|ExecutorLostFailure[^\n]*(?:exited with code (?:52|137)\b|[Ee]xit code:? (?:is )?(?:52|137)\b|exceeding memory limits)"
)
_THROTTLED: Final = re.compile(
    r"Throttl|SlowDown|TooManyRequests|RequestLimitExceeded|ProvisionedThroughputExceeded|RequestTimeout"
)
_SERVER_ERROR: Final = 500
# What follows is for those who read logs: stacks, and the text of the query.
_NOISE: Final = re.compile(r"\n\s*(?:at [\w.$/<>]+\(|Driver stacktrace:|JVM stacktrace:|== SQL|\.\.\. \d+ more)")
_TASK_FAILURE: Final = re.compile(r"most recent failure: Lost task .*?\(.*? executor .*?\): ", re.DOTALL)
_CAUSED_BY: Final = re.compile(r"^Caused by: (.+?)(?=\n\s*at |\Z)", re.MULTILINE | re.DOTALL)
_LAST_LINE: Final = re.compile(
    r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning))(?:: .*)?$", re.MULTILINE
)


def may_be_jvm_death(error: BaseException) -> bool:
    """Whether this is how the end of the JVM looks from Python: a broken connection rather than an answer."""
    return isinstance(error, (Py4JNetworkError, ConnectionError, GatewayError)) or (
        isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    )


def of_stop(stop: Stop) -> Failure:
    """The failure of an attempt that was stopped."""
    if stop.reason is None:
        raise AssertionError("no stop was requested")
    kind, code = _STOPPED[stop.reason]
    return Failure(kind, _shorten(stop.detail), code)


def of_error(error: BaseException) -> Failure:
    """The failure of an attempt whose work raised."""
    text = cause(error)
    match error:
        case NoOutputError():
            return Failure(OutcomeClass.NO_OUTPUT, text, ExitCode.FAILED)
        case PermanentError():
            return Failure(OutcomeClass.PERMANENT, text, ExitCode.PERMANENT)
        case LeaseChangedError():
            return Failure(OutcomeClass.SUPERSEDED, text, ExitCode.SUPERSEDED)
        case MemoryError():
            return Failure(OutcomeClass.OUT_OF_MEMORY, text, ExitCode.OUT_OF_MEMORY)
        case ClientError() | BotoCoreError() if _is_trouble_of_aws(error):
            return Failure(OutcomeClass.INTERRUPTED, text, ExitCode.INTERRUPTED)
    if _OUT_OF_MEMORY.search(str(error)):
        return Failure(OutcomeClass.OUT_OF_MEMORY, text, ExitCode.OUT_OF_MEMORY)
    return Failure(OutcomeClass.FAILED, text, ExitCode.FAILED)


def _is_trouble_of_aws(error: ClientError | BotoCoreError) -> bool:
    """Whether AWS could not answer, in spite of the SDK's retries: no fault of the job's, which may well do better in a minute."""
    if isinstance(error, BotoCoreError):
        return isinstance(error, HTTPClientError)  # connections and timeouts; all else is a wrong call
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= _SERVER_ERROR or bool(_THROTTLED.search(error.response["Error"]["Code"]))


def cause(error: BaseException) -> str:
    """What went wrong in as few words as there are: the last line of a Python traceback, or Spark's message without its stacks."""
    if isinstance(error, PermanentError):
        return _shorten(str(error))
    text = str(error)
    if "Traceback (most recent call last)" in text:  # of a Python worker, quoted by Spark
        last_lines = _LAST_LINE.findall(text.rpartition("Traceback (most recent call last)")[2])
        if last_lines:
            return _shorten(last_lines[0])
    causes = _CAUSED_BY.findall(text)
    if causes:
        return _shorten(causes[-1])
    task_failure = _TASK_FAILURE.search(text)
    if task_failure:
        return _shorten(_NOISE.split(text[task_failure.end() :], maxsplit=1)[0])
    brief = _NOISE.split(text, maxsplit=1)[0]
    # Spark's own begin with their condition, such as [DIVIDE_BY_ZERO].
    return _shorten(brief if isinstance(error, PySparkException) else f"{type(error).__name__}: {brief}")


def _shorten(text: str) -> str:
    return shorten(text.strip())
