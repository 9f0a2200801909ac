"""What the log of a task shows of an error's way."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from longhaul.core.verdict import ExitCode
from longhaul.runner import json_logs
from longhaul.runner.json_logs import trace
from longhaul.runner.spark.session import build_session
from longhaul.runner.stopping import StopRequestedError
from tests.runner.conftest import Cloud, MakeAttempt
from tests.runner.job_attempts import found_job

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
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "flights.py").write_text(FLIGHTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "flights", raising=False)
    return importlib.import_module("flights")


def test_a_failure_is_logged_with_its_rows_message_and_the_jobs_own_frames(
    cloud: Cloud,
    make_attempt: MakeAttempt,
    flights: ModuleType,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cloud.claim(inputs={})
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
