"""Jobs on the engine `emr-serverless`, through the whole system: a driver with two executors."""

from collections.abc import Iterator

import psutil
import pytest

from longhaul.core.lease import State
from longhaul.engines.emr_serverless.ends import name_of
from tests.e2e.conftest import Stack

pytestmark = pytest.mark.slow

ENGINE = {"engine": "emr-serverless"}
TASKS = 24
# Rows go through Python workers, so that code travels to the executors. A task takes a second.
SLOW = f"""
import os, time

def run(spark, job):
    def slowly(rows):
        time.sleep(1)
        return [(row.n, os.getppid()) for row in rows]

    numbers = spark.read.json(job.input("numbers")).repartition({TASKS}, "n")
    job.progress("computing")
    rows = numbers.rdd.mapPartitions(slowly)
    job.write(spark.createDataFrame(rows, "n long, executor long"), format="json")
"""


@pytest.fixture(autouse=True)
def _tell_what_drivers_said(stack: Stack, request: pytest.FixtureRequest) -> Iterator[None]:
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before:
        for log in sorted((stack.aws.work_dir / "job-runs").glob("*.log")):
            print(log.name, log.read_text()[-6000:])  # noqa: T201 - pytest shows it with the failure


def slow_job(stack: Stack, job_id: str) -> str:
    s3 = stack.client("s3")
    s3.put_object(Bucket=stack.bucket, Key="jobs/slow.py", Body=SLOW.encode())
    numbers = "".join(f'{{"n": {n}}}\n' for n in range(1000))
    s3.put_object(Bucket=stack.bucket, Key="numbers/numbers.json", Body=numbers.encode())
    job = f"s3://{stack.bucket}/jobs/slow.py"
    return stack.select(
        job_id,
        "",
        job=job,
        params={},
        inputs={"numbers": f"s3://{stack.bucket}/numbers/"},
        **ENGINE,
    )


def tasks_done(stack: Stack, job_id: str) -> int:
    row = stack.row(job_id)
    return int(row.attempt.progress.get("tasks", [0, 0])[0]) if row else 0


def test_a_job_runs_on_the_cluster_and_is_published_like_any_other(stack: Stack) -> None:
    stack.send(
        stack.select("beyond-one-machine", "SELECT id, id % 2 AS odd FROM range(10)", **ENGINE)
    )

    row = stack.until("beyond-one-machine", State.SUCCEEDED, State.DEAD)

    assert (row.state, row.last_error) == (State.SUCCEEDED, None)
    assert row.attempt.task_arn is not None
    assert row.attempt.task_arn.endswith(f"/jobruns/named/{name_of(row.id)}")
    assert stack.ended_as(row) == "SUCCEEDED"
    assert sorted(each["id"] for each in stack.rows("beyond-one-machine")) == list(range(10))


def test_an_executor_that_dies_in_the_middle_costs_the_job_nothing(stack: Stack) -> None:
    stack.send(slow_job(stack, "executor-dies"))
    stack.wait_for(lambda: tasks_done(stack, "executor-dies") >= 4, "some tasks are done")

    executor = next(
        each
        for each in psutil.Process().children(recursive=True)
        if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline())
    )
    executor.kill()

    row = stack.until("executor-dies", State.SUCCEEDED, State.DEAD)
    assert (row.state, row.attempt.number, row.failures, row.interruptions) == (
        State.SUCCEEDED,
        1,
        0,
        0,
    )
    rows = stack.rows("executor-dies")
    assert sorted(each["n"] for each in rows) == list(range(1000))


def test_a_cancelled_job_leaves_neither_a_job_run_nor_anything_visible(stack: Stack) -> None:
    stack.send(slow_job(stack, "cancelled"))
    stack.wait_for(lambda: tasks_done(stack, "cancelled") >= 1, "it runs")

    stack.leases.request_cancel("main#cancelled", "main")

    row = stack.until("cancelled", State.CANCELLED)
    assert (
        stack.client("s3")
        .list_objects_v2(Bucket=stack.bucket, Prefix="cancelled/")
        .get("Contents", [])
        == []
    )
    stack.wait_for(lambda: not active(stack), f"the job run of {row.key} has ended")


def test_a_job_that_cannot_succeed_is_dead_lettered_with_its_own_words(stack: Stack) -> None:
    stack.send(
        stack.select(
            "no-such-input", "SELECT 1", inputs={"x": f"s3://{stack.bucket}/none/"}, **ENGINE
        )
    )

    row = stack.until("no-such-input", State.DEAD)

    assert (row.last_class, row.failures) == ("permanent", 1)
    assert "input 'x': nothing at" in (row.last_error or "")


def active(stack: Stack) -> list[str]:
    emr = stack.client("emr-serverless")
    (application,) = emr.list_applications()["applications"]
    listed = emr.list_job_runs(
        applicationId=application["id"], states=["SCHEDULED", "RUNNING", "CANCELLING"]
    )
    return [run["name"] for run in listed["jobRuns"]]
