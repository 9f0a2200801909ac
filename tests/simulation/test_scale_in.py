"""Scaling in on a late metric loses work; a task that is one job is never scaled in."""

import random

import pytest

from simulation.scale_in.alarms import AlarmDriven, Watched
from simulation.scale_in.longhaul import by_leases
from simulation.scale_in.work import Outcome, bursts, nights


def by_alarms(mean_s: float, watched: Watched, minutes: int) -> list[Outcome]:
    return [
        AlarmDriven(
            bursts(mean_s, random.Random(seed)), watched=watched, minutes=minutes, seed=seed
        ).run()
        for seed in range(3)
    ]


@pytest.mark.parametrize("minutes", [1, 15], ids=lambda minutes: f"evaluated over {minutes} min")
def test_scaling_in_while_no_message_waits_stops_jobs_and_fills_the_dead_letter_queue(
    minutes: int,
) -> None:
    outcomes = by_alarms(7200, "visible", minutes)

    assert all(outcome.stopped and outcome.lost_share > 0.1 for outcome in outcomes)
    # The jobs are good, and their dead letters give no reason.
    assert all(outcome.dead_letters for outcome in outcomes)


@pytest.mark.parametrize("minutes", [1, 15], ids=lambda minutes: f"evaluated over {minutes} min")
def test_counting_running_jobs_too_still_loses_work_because_the_count_is_late(
    minutes: int,
) -> None:
    outcomes = by_alarms(1200, "all", minutes)

    assert sum(outcome.stopped for outcome in outcomes)
    assert sum(outcome.lost_s for outcome in outcomes)


def test_a_longer_evaluation_helps_only_jobs_shorter_than_itself() -> None:
    short = [sum(each.lost_s for each in by_alarms(300, "visible", minutes)) for minutes in (1, 15)]
    long = [
        sum(each.stopped for each in by_alarms(7200, "visible", minutes)) for minutes in (1, 15)
    ]

    assert short[1] < short[0]
    assert long[1] > 0


def after_nights(mean_s: float, minutes: int) -> list[Outcome]:
    return [
        AlarmDriven(
            nights(mean_s, random.Random(seed), 3), watched="three", minutes=minutes, seed=seed
        ).run()
        for seed in range(2)
    ]


@pytest.mark.parametrize("mean_s", [600, 7200], ids=["minutes", "hours"])
def test_a_sum_of_metrics_that_wake_one_after_another_stops_all_that_runs(mean_s: float) -> None:
    by_the_minute, by_the_quarter = (after_nights(mean_s, minutes) for minutes in (1, 15))

    assert sum(each.stopped for each in by_the_minute) > 1
    # The cure holds while no metric is later than the alarm is long, and is paid in idle workers.
    assert not any(each.stopped for each in by_the_quarter)
    if mean_s == 600:
        assert sum(each.paid_s for each in by_the_quarter) > sum(
            each.paid_s for each in by_the_minute
        )


@pytest.mark.parametrize(
    "mean_s", [300, 7200, 50_000], ids=["minutes", "hours", "beyond SQS's 12 hours"]
)
def test_longhaul_stops_no_running_job(mean_s: float) -> None:
    jobs = bursts(mean_s, random.Random(1), 2)

    outcome = by_leases(jobs)

    assert (outcome.done, outcome.stopped, outcome.lost_s, outcome.dead_letters) == (
        len(jobs),
        0,
        0,
        0,
    )
