"""What a stage gives its jobs: variables, and secrets that nothing shows."""

import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.domain.errors import SecretUnreadableError
from longhaul.domain.masking import Mask
from longhaul.domain.secret_refs import SecretRef
from longhaul.domain.verdict import ExitCode, OutcomeClass
from longhaul.job import Job
from longhaul.runner import json_logs
from longhaul.runner.resources import Resources
from longhaul.runner.spark.gateway import LateGateway
from longhaul.runner.variables import MaskedStream, give_to_process
from longhaul.settings import JobVariables
from tests.forks import exit_code, fork
from tests.runner.conftest import Cloud, MakeAttempt

ARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop/db-AbCd12"
SECRET = "hunter22 correct horse"
VARIABLES = {"main": JobVariables(environment={"DB_HOST": "db"}, secrets={"DB_PASSWORD": ARN})}


class Values:
    def __init__(self, value: str = SECRET) -> None:
        self.value = value

    def read_secret(self, ref: SecretRef) -> str:
        assert ref.arn == ARN
        return self.value


class Denied:
    def read_secret(self, ref: SecretRef) -> str:
        raise SecretUnreadableError(f"the role of the stage cannot read {ref.arn}: AccessDenied")


@pytest.fixture
def process() -> Iterator[None]:
    """This process as it was, afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    environment = dict(os.environ)
    streams = sys.stdout, sys.stderr
    yield
    sys.stdout, sys.stderr = streams
    os.environ.clear()
    os.environ.update(environment)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("process")
def test_a_job_and_the_processes_of_its_functions_have_the_variables_of_its_stage(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    cloud.claim(inputs={})
    seen: list[str] = []

    def run(spark: SparkSession, job: Job[Any]) -> None:
        seen.append(f"{os.environ['DB_HOST']} {os.environ['DB_PASSWORD']}")
        name = F.udf(lambda _: os.environ["DB_PASSWORD"])
        seen.extend(row[0] for row in spark.range(1).select(name("id")).collect())
        job.write(spark.range(1))

    others = {"other": JobVariables(environment={"THEIRS": "1"})}
    attempt = make_attempt(run, variables={**VARIABLES, **others}, secret_values=Values())
    assert attempt.run() is ExitCode.OK
    assert seen == [f"db {SECRET}", SECRET]
    assert "THEIRS" not in os.environ


@pytest.mark.usefixtures("process")
def test_nothing_that_a_job_says_shows_a_secret(
    cloud: Cloud, make_attempt: MakeAttempt, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.claim(inputs={})
    json_logs.configure(job_id="a")

    def run(_spark: SparkSession, job: Job[Any]) -> Mapping[str, str]:
        print("with", os.environ["DB_PASSWORD"])  # noqa: T201 - as a job does
        logging.getLogger("job").warning("with %s", SECRET)
        job.progress(f"{'x' * 110} {SECRET}")
        raise ValueError(f"no login with {SECRET!r}")

    attempt = make_attempt(run, variables=VARIABLES, secret_values=Values())
    assert attempt.run() is ExitCode.FAILED
    row = cloud.lease()
    result = row.attempt.result
    assert result is not None
    assert result.error == "ValueError: no login with '[DB_PASSWORD]'"
    assert "hunter22" not in str(row)
    sys.stdout.flush()
    said = capsys.readouterr()
    assert said.out == "with [DB_PASSWORD]\n"
    assert "with [DB_PASSWORD]" in said.err
    assert "hunter22" not in said.out + said.err


@pytest.mark.usefixtures("process")
def test_what_a_job_returns_is_kept_without_secrets(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    cloud.claim(inputs={})

    def run(spark: SparkSession, job: Any) -> None:
        job.write(spark.range(1))
        job.result = {"dsn": f"postgresql://a:{SECRET}@db", "rows": 1}

    attempt = make_attempt(run, variables=VARIABLES, secret_values=Values())
    assert attempt.run() is ExitCode.OK
    output = cloud.lease().attempt.output
    assert output is not None
    assert output.results is not None
    assert output.results.value == {"dsn": "postgresql://a:[DB_PASSWORD]@db", "rows": 1}


@pytest.mark.parametrize("values", [Denied(), Values("a\0b")])
def test_a_secret_that_cannot_be_read_ends_the_attempt_before_the_job_with_its_name(
    cloud: Cloud, make_attempt: MakeAttempt, values: Any
) -> None:
    cloud.claim(inputs={})

    def run(_spark: SparkSession, _job: Job[Any]) -> None:
        raise AssertionError("the job has begun")

    attempt = make_attempt(run, variables=VARIABLES, secret_values=values)
    assert attempt.run() is ExitCode.DENIED
    result = cloud.lease().attempt.result
    assert result is not None
    assert result.kind == OutcomeClass.REFUSED
    assert result.error.startswith("SecretUnreadableError: DB_PASSWORD: ")


@pytest.mark.usefixtures("process")
def test_lines_that_are_printed_in_pieces_are_masked_as_a_whole() -> None:
    under = io.StringIO()
    stream = MaskedStream(under, Mask({"A": "hunter22"}))
    for piece in ("one hun", "ter22\ntwo", " hunter22"):
        stream.write(piece)
    assert under.getvalue() == "one [A]\n"
    stream.flush()
    assert under.getvalue() == "one [A]\ntwo [A]"


def test_a_secret_of_several_lines_is_masked_as_a_whole_also_where_its_last_line_goes_on() -> None:
    under = io.StringIO()
    stream = MaskedStream(under, Mask({"A": "user\nhunter2"}))
    for piece in ("with user\nhunter2", ".\nuser\n", "and more\n"):
        stream.write(piece)
    assert under.getvalue() == "with [A].\nuser\nand more\n"


def test_a_forked_process_prints_although_a_thread_of_its_parent_was_printing() -> None:
    under = io.StringIO()
    stream = MaskedStream(under, Mask({"A": "hunter22"}))
    stream.write("half a line")
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with stream._lock:
            is_held.set()
            may_end.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()

    def print_line() -> None:
        stream.write("whole\n")
        assert under.getvalue() == "whole\n"

    child = fork(print_line, within_s=10)
    may_end.set()
    holder.join()
    assert exit_code(child) == 0


@pytest.mark.usefixtures("process")
def test_lines_of_the_log_are_masked_once_the_secrets_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    json_logs.configure(job_id="a")
    give_to_process({"A": 'hun"ter22'}, Mask({"A": 'hun"ter22'}))
    logging.getLogger().info("x", extra={"detail": {"token": 'hun"ter22'}})
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert line["detail"] == {"token": "[A]"}


def test_a_jvm_that_is_started_late_has_no_secret_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Mapping[str, str]] = []

    def begin(_command: object, *, env: Mapping[str, str], **_: object) -> None:
        started.append(env)
        raise InterruptedError

    monkeypatch.setattr("longhaul.runner.spark.gateway.subprocess.Popen", begin)
    gateway = LateGateway(tmp_path, Resources(1, 1024))
    # As the attempt does, before it knows that its job needs Spark.
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    with pytest.raises(InterruptedError):
        gateway.start()

    (environment,) = started
    assert "SPARK_HOME" in environment
    assert "DB_PASSWORD" not in environment
