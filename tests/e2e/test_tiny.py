"""Jobs of the size `tiny` through the whole system: the function's own code, in warm processes."""

from functools import partial

import psutil
import pytest

from longhaul.core.lease import State
from tests.e2e.conftest import Stack
from tests.local.support import eventually

pytestmark = pytest.mark.slow  # cold starts of Spark; the demo and the simulation show the same


def test_tiny_jobs_run_on_lambda_one_after_the_other_in_the_same_environment(stack: Stack) -> None:
    environments = set()
    for number in (1, 2):
        stack.send(stack.select(f"tiny-{number}", f"SELECT {number} AS n", size="tiny"))
        row = stack.until(f"tiny-{number}", State.SUCCEEDED)
        assert stack.rows(f"tiny-{number}") == [{"n": number}]
        assert (row.input.engine, row.attempt.number, row.failures) == ("lambda", 1, 0)
        assert row.attempt.task_arn is not None
        assert "/invocations/" in row.attempt.task_arn
        (environment,) = (each for each in psutil.Process().children() if _serves_tiny_jobs(each))
        # The job's own process and its JVM are gone.
        eventually(partial(_serves_no_job, environment), "no process of the job")
        environments.add(environment)
    assert len(environments) == 1


def test_a_tiny_job_that_is_killed_goes_on_with_the_next_size_on_fargate(stack: Stack) -> None:
    slow = (
        "SELECT count(*) AS n FROM range(60000) a CROSS JOIN range(60000) b WHERE a.id * b.id = 7"
    )
    stack.send(stack.select("tiny-killed", slow, size="tiny"))
    stack.until_progress("tiny-killed", "running")
    stack.kill("tiny-killed")
    row = stack.until("tiny-killed", State.SUCCEEDED)
    assert (row.attempt.number, row.failures) == (2, 1)
    assert (row.input.engine, row.input.size) == ("fargate", "small")
    assert stack.rows("tiny-killed") == [{"n": 2}]


def _serves_no_job(environment: psutil.Process) -> bool:
    return not environment.children(recursive=True)


def _serves_tiny_jobs(process: psutil.Process) -> bool:
    try:
        return "longhaul.engines.aws_lambda.runner.lambda_handler" in process.cmdline()
    except psutil.Error:
        return False
