"""A job among many costs no more than one among few, and is not delayed for long."""

import pytest

from benchmarks.growth import burst, grown
from benchmarks.job_calls import calls_of_a_job
from longhaul.core.settings import LeaseSettings
from simulation.aws.ecs.client import Launches
from simulation.aws.sqs.queues import MAX_IN_FLIGHT
from simulation.worlds.backlog import Backlog


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


# A backlog.


DAY_S = 86_400
HOUR_S = 3_600
SCALE = 5_000


@pytest.mark.slow
# In any order luck decides when a message comes: after fifty minutes on average.
@pytest.mark.parametrize(("order", "invalid_within_s"), [("longest", HOUR_S), ("any", 5 * HOUR_S)])
def test_every_message_of_a_million_is_renewed_long_before_sqs_drops_it(
    order: str, invalid_within_s: float
) -> None:
    backlog = Backlog(1_000_000, scale=SCALE, order=order)
    backlog.run(days=1)
    backlog.send("not a request")

    seen = backlog.run(days=7)

    assert seen.lost == 0
    assert seen.renewed >= 1_000_000 // SCALE
    # Renewed after seven days, when it comes next. SQS drops it after fourteen.
    assert seen.oldest_s < LeaseSettings().renew_age_s + DAY_S
    # SQS gives out nothing more when so many are hidden.
    assert seen.most_hidden < MAX_IN_FLIGHT // SCALE
    (dead_lettered_after_s,) = seen.dead_lettered_after_s
    assert dead_lettered_after_s < invalid_within_s


@pytest.mark.parametrize("order", ["longest", "any"])
def test_an_invalid_body_behind_a_hundred_thousand_is_found_in_minutes(order: str) -> None:
    backlog = Backlog(100_000, scale=1_000, order=order)
    backlog.run(days=0.05)
    backlog.send("not a request")

    (dead_lettered_after_s,) = backlog.run(days=0.05).dead_lettered_after_s

    assert dead_lettered_after_s < 0.1 * HOUR_S


def test_few_waiting_messages_cost_few_looks() -> None:
    seen = Backlog(20, scale=1, order="any").run(days=3)

    # The stage's jobs take very long: a message looks eight times an hour on the first day, and
    # twice or thrice later.
    assert seen.looks / 20 / (3 * 24) < 5
    assert seen.longest_unseen_s <= 1_800
