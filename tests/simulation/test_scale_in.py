"""Scaling in on a late metric loses work; a task that is one job is never scaled in."""

import random

import pytest

from benchmarks.scale_in import Watched, bursts, by_alarms, by_leases


@pytest.mark.parametrize(
    ("mean_s", "watched"),
    [(7200, "visible"), (1200, "all"), (600, "three")],
    ids=["visible messages", "visible + in flight", "the incident"],
)
def test_scaling_in_on_a_late_metric_stops_jobs(mean_s: float, watched: Watched) -> None:
    outcomes = [by_alarms(mean_s, watched, 1, seed) for seed in range(3)]

    assert sum(each.stopped for each in outcomes) > 1
    # These jobs are good, and their dead letters give no reason.
    assert any(each.dead_letters for each in outcomes) == (watched == "visible")


def test_an_alarm_over_15_minutes_would_have_prevented_the_incident() -> None:
    assert not any(by_alarms(600, "three", 15, seed).stopped for seed in range(3))


@pytest.mark.parametrize(
    ("mean_s", "count"),
    [(300, 2), (7200, 2), (50_000, 1)],  # a job of the last one makes hundreds of beats
    ids=["minutes", "hours", "beyond SQS's 12 hours"],
)
def test_longhaul_stops_no_running_job(mean_s: float, count: int) -> None:
    jobs = bursts(mean_s, random.Random(1), count)

    outcome = by_leases(jobs)

    assert (outcome.done, outcome.stopped, outcome.lost_s, outcome.dead_letters) == (
        len(jobs),
        0,
        0,
        0,
    )
