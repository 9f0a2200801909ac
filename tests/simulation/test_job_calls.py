"""What one job costs in calls of AWS: the counts of benchmarks/README.md are held here."""

import pytest

from benchmarks.job_calls import calls_of_a_job


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
