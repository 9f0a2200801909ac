"""A job among many costs no more than one among few, and is not delayed for long."""

import pytest

from benchmarks.growth import burst, grown
from benchmarks.job_calls import calls_of_a_job
from simulation.aws.ecs.client import Launches


def test_a_job_among_many_makes_no_more_calls() -> None:
    few, many = ({name: n / jobs for name, n in grown(jobs)[0].items()} for jobs in (10, 40))

    assert 50 < sum(many.values()) <= sum(few.values())
    assert many["dynamodb.BatchGetItem"] < few["dynamodb.BatchGetItem"]
    assert many["ecs.ListTasks"] < few["ecs.ListTasks"] / 2


def test_a_burst_beyond_what_run_task_takes_costs_seconds_and_no_slots() -> None:
    found = burst(40, Launches(per_s=2, at_once=20))

    assert found["throttled"] >= 10
    assert found["last_task_after_s"] < 60


# The calls of one job.


@pytest.mark.parametrize(
    ("work_s", "most"),
    [
        (100, {"claim": 5, "beats": 25, "reports": 8, "output": 17, "end": 4}),
        (600, {"claim": 5, "beats": 64, "reports": 43, "output": 17, "end": 4}),
    ],
)
def test_a_job_makes_few_calls_of_each_kind(work_s: float, most: dict[str, int]) -> None:
    counted = calls_of_a_job(work_s)
    assert counted.keys() == most.keys()
    assert {kind: count for kind, count in counted.items() if count > most[kind]} == {}
    assert counted.total() <= {100: 60, 600: 150}[int(work_s)]
