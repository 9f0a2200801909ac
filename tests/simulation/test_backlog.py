"""Many messages wait in a full stage: each is seen in time, and none is hidden for too long."""

import pytest

from longhaul.core.settings import LeaseSettings
from simulation.aws.sqs.queues import MAX_IN_FLIGHT
from simulation.worlds.backlog import Backlog

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
