"""Attempts that end early: lost, cancelled, out of time, without their JVM."""

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from threading import Timer
from typing import Any

import pytest
from botocore.exceptions import ClientError
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from longhaul.core import transitions
from longhaul.core.clients import SystemClock
from longhaul.core.lease import State
from longhaul.core.transitions import Report
from longhaul.core.verdict import ExitCode, OutcomeClass, by_exit_code
from longhaul.job import Job
from longhaul.outputs.publisher import S3Publisher
from longhaul.runner import attempt as attempt_module
from longhaul.runner.stopping import Stop, StopReason
from tests.builders import BUCKET
from tests.patience import DEADLINE_S
from tests.runner.conftest import Cloud, MakeAttempt, SharedSpark
from tests.runner.job_attempts import OUTPUT, Instead, NoSpark, write_one_row


def work_until_stopped(stop: Stop) -> None:
    """Ends as the stop of the JVM makes a call of Spark's end."""
    assert stop.wait(10)
    raise Py4JNetworkError


def lose_lease(cloud: Cloud) -> None:
    row = cloud.lease()
    settled = replace(row, state=State.RELEASED, settled_attempt=row.attempt.number)
    cloud.leases.apply(transitions.settle(row, settled))


def test_a_second_task_of_the_same_attempt_withdraws(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    lease = cloud.claim()
    cloud.leases.report(transitions.register_task(lease.id, "arn:task/other", SystemClock().now()))
    before = cloud.lease()

    assert make_attempt().run() is ExitCode.SUPERSEDED

    assert cloud.lease() == before


def test_losing_the_lease_before_the_commit_publishes_nothing_and_leaves_no_uploads(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    def report(report: Report) -> Any:
        if "output" in report.sets:
            assert len(cloud.pending_uploads()) > 0
            lose_lease(cloud)
        return cloud.leases.report(report)

    leases = Instead(cloud.leases, report=report)
    assert make_attempt(write_one_row, leases=leases).run() is ExitCode.SUPERSEDED

    assert (cloud.objects(OUTPUT), cloud.pending_uploads()) == ([], [])


def test_the_cause_of_the_jvms_death_is_awaited_when_its_connection_breaks_first(
    make_attempt: MakeAttempt, spark: SparkSession
) -> None:
    stop = Stop()

    class Dying(SharedSpark):
        def close(self) -> None:
            raise AssertionError("closed before the cause is known")

    def break_(_spark: SparkSession, _job: Job[Any]) -> None:
        Timer(
            0.3, stop.request, [StopReason.OUT_OF_MEMORY, "Spark's JVM ran out of memory"]
        ).start()
        raise ConnectionRefusedError

    attempt = make_attempt(break_, spark=Dying(spark, stop), stop=stop)

    assert attempt.run() is ExitCode.OUT_OF_MEMORY


class KilledError(BaseException):
    """As a SIGKILL: nothing handles it."""


def test_a_committed_output_is_published_without_spark(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    class DiesAfterCommit:
        def __getattr__(self, name: str) -> Any:
            raise KilledError

    with pytest.raises(KilledError):
        make_attempt(write_one_row, publisher=DiesAfterCommit()).run()
    assert cloud.objects(OUTPUT) == []

    assert make_attempt(spark=NoSpark()).run() is ExitCode.OK

    assert f"{OUTPUT}_SUCCESS" in cloud.objects(OUTPUT)
    assert cloud.lease().attempt.published_at is not None


def test_a_failed_publish_after_the_commit_keeps_the_uploads(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    class Unavailable(S3Publisher):
        def publish(self, *_: Any, **__: Any) -> None:
            raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")

    assert (
        make_attempt(write_one_row, publisher=Unavailable(cloud.s3, BUCKET)).run()
        is ExitCode.INTERRUPTED
    )

    assert cloud.lease().attempt.output is not None
    assert cloud.lease().attempt.result is None
    S3Publisher(cloud.s3, BUCKET).publish(cloud.lease().id)
    assert f"{OUTPUT}_SUCCESS" in cloud.objects(OUTPUT)


def test_an_attempt_that_cannot_report_for_longer_than_the_stall_timeout_works_on(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    """In an outage of DynamoDB nothing else can tell whether the job is still its own."""
    lease = cloud.claim(inputs={})
    failures = []

    def report(report: Report) -> Any:
        if "progress" not in report.sets:
            return cloud.leases.report(report)
        failures.append(1)
        raise ClientError({"Error": {"Code": "ThrottlingException"}}, "UpdateItem")

    class Hasty:
        calls = 0

        def now(self) -> Any:
            self.calls += 1
            return SystemClock().now() + timedelta(seconds=self.calls * lease.stall_timeout_s)

    def wait_for_failures(spark: SparkSession, job: Job[Any]) -> None:
        waiter = Stop()
        while len(failures) < 3:
            waiter.wait(0.02)
        write_one_row(spark, job)

    attempt = make_attempt(
        wait_for_failures, reports=Instead(cloud.leases, report=report), clock=Hasty()
    )
    assert attempt.run() is ExitCode.OK


def test_an_attempt_that_outlasts_its_timeout_ends_itself(
    cloud: Cloud, make_attempt: MakeAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = cloud.claim(inputs={})
    monkeypatch.setattr(attempt_module, "_DEADLINE_MARGIN_S", 0.3 - lease.input.timeout_s)
    stop = Stop()

    def wait(_spark: SparkSession, _job: Job[Any]) -> None:
        work_until_stopped(stop)

    assert make_attempt(wait, stop=stop).run() is ExitCode.FAILED

    assert cloud.result().kind == "timed_out"


def run_python(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_a_runner_does_not_wait_for_threads_that_its_job_has_left() -> None:
    ended = run_python("""
import threading, time
from longhaul.runner.stopping import exit_with

def main():
    threading.Thread(target=time.sleep, args=(600,)).start()
    print("last words")
    return 65

exit_with(main)
""")
    assert (ended.returncode, ended.stdout) == (65, "last words\n")


def test_a_runner_that_fails_says_where() -> None:
    ended = run_python("from longhaul.runner.stopping import exit_with; exit_with(lambda: 1 // 0)")
    assert ended.returncode == 1
    assert "ZeroDivisionError" in ended.stderr


def test_a_request_that_may_not_be_read_is_no_fault_of_the_jobs(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    attempt = make_attempt(spark=NoSpark())
    said = {"Error": {"Code": "AccessDenied", "Message": "with an explicit deny in an SCP"}}

    def denied(*_: Any, **__: Any) -> Any:
        raise ClientError(said, "GetObject")  # type: ignore[arg-type]  # no ResponseMetadata

    attempt.requests.get = denied  # type: ignore[method-assign]

    assert attempt.run() is ExitCode.DENIED

    result = cloud.result()
    assert result.kind == "refused"
    assert "explicit deny in an SCP" in result.error


def denied(leases: Any, attribute: str) -> Instead:
    """The leases, where a policy denies each write that sets this attribute."""

    def report(report: Report) -> Any:
        if attribute in report.sets:
            said = {"Error": {"Code": "AccessDeniedException", "Message": "explicit deny"}}
            raise ClientError(said, "UpdateItem")  # type: ignore[arg-type]  # as above
        return leases.report(report)

    return Instead(leases, report=report)


def test_a_commit_that_a_policy_denies_is_no_fault_of_the_jobs(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    attempt = make_attempt(write_one_row, leases=denied(cloud.leases, "output"))

    assert attempt.run() is ExitCode.DENIED

    result = cloud.result()
    assert result.kind == "refused"
    assert "AWS denies the task the commit" in result.error


def test_a_task_that_may_not_register_says_so_with_its_exit_code(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    attempt = make_attempt(spark=NoSpark(), leases=denied(cloud.leases, "task_arn"))
    assert attempt.run() is ExitCode.DENIED
    assert by_exit_code(ExitCode.DENIED) is OutcomeClass.REFUSED
