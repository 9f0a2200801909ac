"""Jobs on the engine `emr-serverless`, through the whole system: here it is a real Spark cluster of two workers."""

from collections.abc import Iterator

import pytest

from longhaul.domain.lease import Lease, State
from tests.e2e.conftest import Stack

ENGINE = {"engine": "emr-serverless"}


@pytest.fixture(autouse=True)
def _show_logs(stack: Stack, request: pytest.FixtureRequest) -> Iterator[None]:
    """What the drivers said, when a test failed."""
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before:
        for log in sorted((stack.aws.work_dir / "job-runs").glob("*.log")):
            print(log.name, log.read_text()[-4000:])  # noqa: T201 - for the report


def register(stack: Stack, job_id: str) -> Lease:
    return stack.until_task(job_id)


@pytest.mark.slow
def test_a_job_runs_on_the_cluster_and_is_published_like_any_other(stack: Stack) -> None:
    stack.send(stack.select("beyond-one-machine", "SELECT id, id % 2 AS odd FROM range(10)", **ENGINE))

    row = stack.until("beyond-one-machine", State.SUCCEEDED, State.DEAD)

    assert (row.state, row.last_error) == (State.SUCCEEDED, None)
    assert row.task_arn is not None
    assert row.task_arn.endswith(f"/jobruns/named/{row.key} {row.run} 1")
    assert stack.ended_as(row) == "SUCCEEDED"
    assert sorted(each["id"] for each in stack.rows("beyond-one-machine")) == list(range(10))
