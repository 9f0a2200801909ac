"""What a task logs."""

import importlib
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.logger import PySparkLogger

from longhaul.core.verdict import ExitCode
from longhaul.runner import json_logs
from longhaul.runner.json_logs import add_label, configure, trace
from longhaul.runner.spark.gateway import printable
from longhaul.runner.spark.session import build_session
from longhaul.runner.stopping import StopRequestedError
from tests.runner.conftest import MakeAttempt
from tests.runner.job_attempts import found_job

QUOTING = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@pytest.fixture
def logs() -> Iterator[None]:
    """Logging as it was, afterwards."""
    root = logging.getLogger()
    handlers, level, known = root.handlers[:], root.level, root.manager.loggerDict.copy()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in QUOTING:
        logging.getLogger(name).disabled = False
        if name not in known:  # PySpark must make its own: it logs with arguments that ours lacks
            del root.manager.loggerDict[name]


@pytest.mark.usefixtures("logs")
def test_lines_have_the_label_once_the_row_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    configure(job_id="a")
    logging.getLogger().info("before")
    add_label("7 October")
    logging.getLogger().info("after")
    before, after = map(json.loads, capsys.readouterr().err.splitlines())
    assert "label" not in before
    assert (after["job_id"], after["label"]) == ("a", "7 October")


@pytest.mark.usefixtures("logs")
def test_py4j_prints_only_what_is_wrong_also_through_the_root_logger(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(lease="main#a")

    for level, text in ((logging.INFO, "sending"), (logging.ERROR, "broken")):
        said = logging.LogRecord("root", level, "/x/py4j/java_gateway.py", 1, text, (), None)
        logging.getLogger().handle(said)
    logging.getLogger().info("a line of ours")

    printed = capsys.readouterr().err
    assert ["sending" in printed, "broken" in printed, "a line of ours" in printed] == [
        False,
        True,
        True,
    ]


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize("name", QUOTING)
def test_pysparks_own_loggers_print_no_query(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure(lease="main#a")

    PySparkLogger.getLogger(name).error("SELECT 'secret'")
    logging.getLogger("jobs").error("a line of ours")

    printed = capsys.readouterr().err
    assert "a line of ours" in printed
    assert "secret" not in printed


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("error", "is_printed"),
    [
        (Py4JNetworkError("Error while sending"), False),
        (ConnectionResetError(), False),
        (RuntimeError("in a callback"), True),
    ],
)
def test_a_call_that_the_end_of_the_jvm_cut_off_is_not_printed(
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    is_printed: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    configure(lease="main#a")
    raised = (type(error), error, None)
    text = "Exception while sending command."
    said = logging.LogRecord("root", logging.ERROR, "/x/py4j/a.py", 1, text, (), raised)

    logging.getLogger().handle(said)

    assert (text in capsys.readouterr().err) == is_printed


LOST = "WARNING TaskSetManager: Lost task 0.0 in stage 2.0 (TID 2) (10.0.0.7 executor 1)"
PUT = "WARNING BlockManager: Putting block rdd_1 failed due to exception"


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        (f"{LOST}: java.io.IOException: no 'secret'", f"{LOST}: java.io.IOException"),
        (f"{LOST}: java.lang.Exception: [SECRET]", f"{LOST}: java.lang.Exception"),
        (
            f"{LOST}: org.apache.spark.SparkException: [A_B.C] 'secret'\\n== SQL ==\\nsecret",
            f"{LOST}: org.apache.spark.SparkException: [A_B.C]",
        ),
        (
            f"{PUT} org.apache.spark.SparkException: [A] secret.",
            PUT + " org.apache.spark.SparkException",
        ),
        (
            "WARNING X: not supported for query: 'Project [secret]",
            "WARNING X: not supported for query",
        ),
        ("ERROR X: Aborting job\\n'Project [secret]", "ERROR X: Aborting job"),
        ("ERROR X: secret-free text. ", "ERROR X: secret-free text."),
        ("Terminating due to java.lang.OutOfMemoryError: Java heap space",) * 2,
        ("what a job prints: secret",) * 2,
    ],
)
def test_what_spark_quotes_is_cut_off_its_line(line: str, printed: str) -> None:
    assert printable(line) == printed


FLIGHTS = """
def look_up(table, key):
    try:
        return table[key]
    except KeyError as error:
        raise RuntimeError(f"no key {key} in the table") from error

def check(spark):
    spark.sql("SELECT nothing")

def run(spark, job):
    look_up({}, "a")
"""


@pytest.fixture
def flights(tmp_path: Path, use_jobs: Callable[[Path], None]) -> ModuleType:
    (tmp_path / "flights.py").write_text(FLIGHTS)
    use_jobs(tmp_path)
    return importlib.import_module("flights")


def test_a_failure_is_logged_with_its_rows_message_and_the_jobs_own_frames(
    make_attempt: MakeAttempt,
    flights: ModuleType,
    caplog: pytest.LogCaptureFixture,
) -> None:
    attempt = make_attempt(find_job=lambda *_: found_job(flights.run))

    assert attempt.run() is ExitCode.FAILED

    (failed,) = (each for each in caplog.records if each.levelname == "ERROR")
    line = json_logs.JsonFormatter({}).format(failed)
    assert '"message": "attempt failed: RuntimeError: no key a in the table"' in line
    assert (
        '"stack": ["flights.py:4 look_up", "KeyError, and then:", "flights.py:12 run",'
        ' "flights.py:6 look_up"]' in line
    )


def test_an_error_without_frames_of_the_job_ends_with_its_cause(flights: ModuleType) -> None:
    """Such as a stop, which is raised in the job's code and becomes an error of ours."""
    with pytest.raises(RuntimeError) as raised:
        flights.look_up({}, "a")
    raised.value.__traceback__ = raised.tb.tb_next  # without this test's own frame
    stopped = StopRequestedError("cancelled")
    stopped.__context__ = raised.value
    assert trace(stopped) == [
        "flights.py:4 look_up",
        "KeyError, and then:",
        "flights.py:6 look_up",
        "RuntimeError",
    ]


def test_sparks_own_frames_are_left_out(flights: ModuleType, spark: object) -> None:
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN") as raised:
        flights.check(spark)
    assert trace(raised.value)[-1] == "flights.py:9 check"


def test_an_error_of_our_own_code_shows_its_frames() -> None:
    with pytest.raises(AttributeError) as raised:
        build_session("name", None)  # type: ignore[arg-type]
    raised.value.__traceback__ = raised.tb.tb_next  # without this test's own frame
    (frame,) = trace(raised.value)
    assert frame.startswith("longhaul/runner/spark/session.py:")
