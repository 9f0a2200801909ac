"""Scaling in on a late metric loses work; a task that is one job and ends with it cannot be scaled in."""

import random

import pytest

from tests.simulation.alarm_driven import AlarmDriven, Watched
from tests.simulation.lease_driven import LeaseDriven
from tests.simulation.work import Outcome, bursts

STOPS = ("ecs.StopTask", "stepfunctions.StopExecution")


def by_alarms(mean_s: float, watched: Watched, minutes: int) -> list[Outcome]:
    return [
        AlarmDriven(bursts(mean_s, random.Random(seed)), watched=watched, minutes=minutes, seed=seed).run()
        for seed in range(3)
    ]


@pytest.mark.parametrize("minutes", [1, 15], ids=lambda minutes: f"evaluated over {minutes} min")
def test_scaling_in_while_nothing_waits_stops_the_jobs_that_run_and_fills_the_dead_letter_queue(minutes: int) -> None:
    outcomes = by_alarms(7200, "visible", minutes)

    assert all(outcome.stopped and outcome.lost_share > 0.1 for outcome in outcomes)
    # Good jobs, whose messages say nothing of why they are there.
    assert all(outcome.dead_letters for outcome in outcomes)


@pytest.mark.parametrize("minutes", [1, 15], ids=lambda minutes: f"evaluated over {minutes} min")
def test_counting_the_running_jobs_too_loses_less_and_still_loses_because_the_count_is_late(minutes: int) -> None:
    outcomes = by_alarms(1200, "all", minutes)

    assert sum(outcome.stopped for outcome in outcomes)
    assert sum(outcome.lost_s for outcome in outcomes)


def test_a_longer_evaluation_helps_only_jobs_shorter_than_itself() -> None:
    short = [sum(each.lost_s for each in by_alarms(300, "visible", minutes)) for minutes in (1, 15)]
    long = [sum(each.stopped for each in by_alarms(7200, "visible", minutes)) for minutes in (1, 15)]

    assert short[1] < short[0]
    assert long[1] > 0


@pytest.mark.parametrize("mean_s", [300, 7200, 50_000], ids=["minutes", "hours", "beyond SQS's 12 hours"])
def test_longhaul_stops_no_job_that_runs(mean_s: float) -> None:
    jobs = bursts(mean_s, random.Random(1), 2)
    world = LeaseDriven(jobs)

    outcome = world.run()

    assert (outcome.done, outcome.stopped, outcome.lost_s, outcome.dead_letters) == (len(jobs), 0, 0, 0)
    assert [world.calls[stop] for stop in STOPS] == [0, 0]
