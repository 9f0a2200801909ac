"""Whatever went wrong: its class, its text with the cause first, its exit code."""

import errno

import pytest
from botocore.exceptions import NoCredentialsError, ReadTimeoutError
from py4j.protocol import Py4JNetworkError

from longhaul.core.errors import InvalidRequestError, LeaseChangedError, PermanentJobError
from longhaul.core.verdict import MAX_ERROR_CHARS, ExitCode, OutcomeClass
from longhaul.runner import failures
from longhaul.runner.failures import may_be_jvm_death
from longhaul.runner.io.staged import OutOfDiskError
from longhaul.runner.io.written import NoOutputError
from longhaul.runner.masking import Mask
from longhaul.runner.spark.driver import cause_of_death
from longhaul.runner.stopping import Stop, StopReason
from simulation.aws.service import client_error

ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 1.0 (TID 1) (127.0.0.1 executor driver): "
)
WORKER = f"""{ABORTED}org.apache.spark.api.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
ValueError: no such tariff: X9

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""
NO_PANDAS = (
    "pyspark.errors.exceptions.base.PySparkImportError: [PACKAGE_NOT_INSTALLED] Pandas >= 2.2.0"
    " must be installed; however, it was not found."
)
NO_POLARS = "ModuleNotFoundError: No module named 'polars'"
CRASHED = f"""An error occurred while calling o52.save.
: org.apache.spark.SparkException: {ABORTED}org.apache.spark.SparkException: \
Python worker exited unexpectedly (crashed). Consider setting 'spark.x.enabled' to 'true'.
\tat org.apache.spark.api.python.BasePythonRunner.x(PythonRunner.scala:1)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readFully(Unknown Source)
"""
LOST = (
    "Job aborted due to stage failure: ExecutorLostFailure (executor 3 exited caused by one of the"
    " running tasks) Reason: {}"
)
STAGE = f"""An error occurred while calling o52.save.
: org.apache.spark.SparkException: {ABORTED}java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.write(Unknown Source)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)
"""
NOISE = "\n at a.b(c)( executor most recent failure: Lost task " * 200_000
NESTED = """An error occurred while calling o52.save.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading x.csv.
\tat org.apache.spark.X.y(X.scala:1)
Caused by: java.lang.RuntimeException: wrapper
\tat org.apache.spark.X.y(X.scala:1)
Caused by: java.util.zip.ZipException: Not in GZIP format
\tat java.base/java.util.zip.GZIPInputStream.readHeader(Unknown Source)
\t... 20 more
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (WORKER, "ValueError: no such tariff: X9"),
        (NESTED, "java.util.zip.ZipException: Not in GZIP format"),
        ("plain", "RuntimeError: plain"),
        # A worker that has dealt with a lack of memory.
        (
            WORKER.replace("Value", "MemoryError\n\nTraceback (most recent call last):\nValue"),
            "ValueError: no such tariff: X9",
        ),
        # At the end of what is looked at of a huge text.
        pytest.param(
            f"{NOISE}\nCaused by: java.io.IOException: no room",
            "java.io.IOException: no room",
            id="huge",
        ),
    ],
)
def test_an_error_text_has_the_cause_first_and_no_stacks(text: str, cause: str) -> None:
    failure = failures.of_error(RuntimeError(text))
    assert failure == failures.Failure(OutcomeClass.FAILED, cause)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (CRASHED, "Python worker exited unexpectedly (crashed)"),
        (WORKER.replace("ValueError: no such tariff: X9", "MemoryError"), "MemoryError"),
        (
            WORKER.replace("ValueError", "numpy._core._exceptions._ArrayMemoryError"),
            "numpy._core._exceptions._ArrayMemoryError: no such tariff: X9",
        ),
    ],
)
def test_a_python_worker_without_memory_makes_the_job_grow(text: str, cause: str) -> None:
    failure = failures.of_error(RuntimeError(text))
    assert failure == failures.Failure(OutcomeClass.OUT_OF_MEMORY, cause)


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (PermanentJobError("bad tariff"), OutcomeClass.PERMANENT, ExitCode.PERMANENT),
        (InvalidRequestError(["x"]), OutcomeClass.PERMANENT, ExitCode.PERMANENT),
        (NoOutputError("nothing"), OutcomeClass.NO_OUTPUT, ExitCode.FAILED),
        (LeaseChangedError(None), OutcomeClass.SUPERSEDED, ExitCode.SUPERSEDED),
        (MemoryError(), OutcomeClass.OUT_OF_MEMORY, ExitCode.OUT_OF_MEMORY),
        (
            RuntimeError("x: java.lang.OutOfMemoryError: Java heap space"),
            OutcomeClass.OUT_OF_MEMORY,
            ExitCode.OUT_OF_MEMORY,
        ),
        (
            RuntimeError(LOST.format("Command exited with code 52")),
            OutcomeClass.OUT_OF_MEMORY,
            ExitCode.OUT_OF_MEMORY,
        ),
        (
            RuntimeError(
                LOST.format("Container from a bad node. Exit status: 143. Exit code: 137")
            ),
            OutcomeClass.OUT_OF_MEMORY,
            ExitCode.OUT_OF_MEMORY,
        ),
        (
            # EMR Serverless says so of a worker. Executors are workers too.
            RuntimeError(LOST.format("Worker has been killed as memory usage exceeded configured")),
            OutcomeClass.OUT_OF_MEMORY,
            ExitCode.OUT_OF_MEMORY,
        ),
        (
            RuntimeError(LOST.format("Command exited with code 1")),
            OutcomeClass.FAILED,
            ExitCode.FAILED,
        ),
        (KeyError("city"), OutcomeClass.FAILED, ExitCode.FAILED),
        (RuntimeError(STAGE), OutcomeClass.OUT_OF_DISK, ExitCode.OUT_OF_DISK),
        (
            OSError(errno.ENAMETOOLONG, "File name too long"),
            OutcomeClass.PERMANENT,
            ExitCode.PERMANENT,
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            OutcomeClass.OUT_OF_DISK,
            ExitCode.OUT_OF_DISK,
        ),
        (OutOfDiskError("too small"), OutcomeClass.OUT_OF_DISK, ExitCode.OUT_OF_DISK),
        (
            ReadTimeoutError(endpoint_url="https://s3"),
            OutcomeClass.INTERRUPTED,
            ExitCode.INTERRUPTED,
        ),
        (
            client_error("SlowDown", "", "UploadPart", status=503),
            OutcomeClass.INTERRUPTED,
            ExitCode.INTERRUPTED,
        ),
        (
            client_error("ThrottlingException", "", "UpdateItem"),
            OutcomeClass.INTERRUPTED,
            ExitCode.INTERRUPTED,
        ),
        (
            client_error("InternalError", "", "PutObject", status=500),
            OutcomeClass.INTERRUPTED,
            ExitCode.INTERRUPTED,
        ),
        (
            client_error("AccessDenied", "", "PutObject", status=403),
            OutcomeClass.FAILED,
            ExitCode.FAILED,
        ),
        (NoCredentialsError(), OutcomeClass.FAILED, ExitCode.FAILED),
    ],
)
def test_each_kind_of_error_has_its_class_and_exit_code(
    error: Exception, kind: OutcomeClass, code: ExitCode
) -> None:
    failure = failures.of_error(error)
    assert (failure.kind, failure.exit_code) == (kind, code)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("No module named 'polars.io'", "polars"),
        (WORKER.replace("ValueError: no such tariff: X9", NO_PANDAS), "pandas>=2.2.0"),
        (WORKER.replace("ValueError: no such tariff: X9", NO_POLARS), "polars"),
    ],
)
def test_a_missing_package_is_permanent_with_its_line_of_requirements(text: str, line: str) -> None:
    failure = failures.of_error(ImportError(text))

    assert failure.kind is OutcomeClass.PERMANENT
    assert failure.error.endswith(f"a line in requirements.txt adds it, such as {line}")


@pytest.mark.parametrize("reason", list(StopReason))
def test_every_reason_to_stop_has_an_outcome(reason: StopReason) -> None:
    stop = Stop()
    stop.request(reason, "why")
    assert failures.of_stop(stop).error == "why"
    assert failures.of_stop(stop).exit_code is not ExitCode.OK


def test_the_first_reason_to_stop_wins() -> None:
    stop, called = Stop(), []
    stop.on_request(lambda: called.append("before"))
    stop.request(StopReason.TERMINATED, "SIGTERM")
    stop.request(StopReason.JVM_DIED, "143")
    stop.on_request(lambda: called.append("after"))
    assert (stop.reason, called) == (StopReason.TERMINATED, ["before", "after"])


def test_an_error_is_shown_whole_apart_from_secrets_of_the_stage() -> None:
    mask = Mask({"TOKEN": "correct horse"})
    for error in (
        PermanentJobError("no data of 2026-11-29 with correct horse"),
        RuntimeError(
            "x\n\tat a.B(C)\nCaused by: no data of 2026-11-29 with correct horse\n\tat a.B(C)"
        ),
    ):
        assert failures.of_error(error, mask).error == "no data of 2026-11-29 with [TOKEN]"
    stop = Stop()
    stop.request(*cause_of_death(134, "no data of 2026-11-29 with correct horse"))
    assert "no data of 2026-11-29 with [TOKEN]" in failures.of_stop(stop, mask).error


def test_a_secret_is_cut_before_the_text_around_it_is() -> None:
    lines = "first-line-is-secret\nsecond-line-is-secret"
    said = f"Traceback (most recent call last)\n  File x\nValueError: bad {lines}\n"
    mask = Mask({"KEY": lines})
    assert failures.of_error(RuntimeError(said), mask).error == "ValueError: bad [KEY]"


class SpeechlessError(PermanentJobError):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (AssertionError(), OutcomeClass.FAILED),
        (ValueError(" "), OutcomeClass.FAILED),
        (PermanentJobError(), OutcomeClass.PERMANENT),
        (SpeechlessError(), OutcomeClass.PERMANENT),
    ],
)
def test_an_error_without_a_text_has_its_class_and_its_place(
    raised: Exception, kind: OutcomeClass
) -> None:
    with pytest.raises(type(raised)) as caught:
        raise raised
    line = caught.traceback[-1].lineno + 1
    failure = failures.of_error(caught.value)
    name = type(raised).__name__
    assert failure.kind is kind
    assert failure.error == f"{name} without a message, at test_failures.py:{line}"


def test_long_texts_are_cut_to_fit_the_row() -> None:
    said = failures.of_error(RuntimeError("x" * 10_000)).error
    assert MAX_ERROR_CHARS - 3 <= len(said) <= MAX_ERROR_CHARS


@pytest.mark.parametrize(
    ("code", "last_words", "reason"),
    [
        (
            3,
            "Terminating due to java.lang.OutOfMemoryError: Java heap space",
            StopReason.OUT_OF_MEMORY,
        ),
        (-9, "", StopReason.OUT_OF_MEMORY),
        (-15, "", StopReason.JVM_DIED),
        (134, "# A fatal error has been detected", StopReason.JVM_DIED),
        (0, "", StopReason.JVM_DIED),
    ],
)
def test_a_jvm_that_ends_by_itself_has_a_named_cause(
    code: int, last_words: str, reason: StopReason
) -> None:
    assert cause_of_death(code, last_words)[0] is reason


def test_a_broken_connection_may_be_the_death_of_the_jvm() -> None:
    assert may_be_jvm_death(Py4JNetworkError())
    assert may_be_jvm_death(ConnectionRefusedError())
    assert not may_be_jvm_death(ValueError())
