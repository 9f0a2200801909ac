"""Prices times usage, and what the money is spent on."""

from datetime import timedelta

import pytest

from longhaul.core.history import AttemptRecord
from longhaul.core.lease import State
from longhaul.core.settings import TaskSettings, TaskSize
from longhaul.operations.cost import USUAL, AttemptCost, Prices, cost_of, money, sums
from tests.builders import NOW, changed, record, settings
from tests.simulation.interpreter.small_machines import attempt as played

TASKS = TaskSettings(
    sizes={
        "small": TaskSize(cpu=1024, memory_mib=4096, disk_gib=30),
        "tiny": TaskSize(cpu=1741, memory_mib=3072, disk_gib=8),
    }
)
PRICES = Prices.model_validate_json(USUAL.read_bytes())
HOUR = timedelta(hours=1)
CPU, MEMORY, DISK, ADDRESS = 0.03238, 4 * 0.00356, 10 * 0.000111, 0.005


def attempt(**changes: object) -> AttemptRecord:
    made = record(
        claimed_at=NOW,
        started_at=NOW,
        ended_at=NOW + HOUR,
        task_from=NOW,
        task_until=NOW + HOUR,
        task_arn="arn:task/1",
        kind="succeeded",
        state=State.SUCCEEDED,
    )
    return changed(made, **changes)


def cost(tasks: TaskSettings = TASKS, /, **changes: object) -> AttemptCost:
    return cost_of(attempt(**changes), PRICES, settings(tasks=tasks), NOW + HOUR)


MINUTE = {"task_until": NOW + timedelta(minutes=1)}


@pytest.mark.parametrize(
    ("changes", "dollars"),
    [
        ({}, CPU + MEMORY + DISK + ADDRESS),
        ({"capacity": "FARGATE_SPOT"}, 0.3 * (CPU + MEMORY) + DISK + ADDRESS),
        # A task of seconds is charged for a minute.
        ({"task_until": NOW + timedelta(seconds=5)}, (CPU + MEMORY + DISK + ADDRESS) / 60),
        ({"task_arn": None}, 0),
        ({"size": "gone"}, None),
        # An invocation is charged for its seconds and memory, and has no address.
        ({"size": "tiny", **MINUTE}, 60 * 3 * 0.0000133334 + 0.0000002),
    ],
)
def test_a_task_is_charged_as_the_price_list_says(
    changes: dict[str, object], dollars: float | None
) -> None:
    assert cost(**changes).task == (None if dollars is None else pytest.approx(dollars))


def test_x86_and_private_subnets_have_their_own_prices() -> None:
    x86 = TASKS.model_copy(update={"architecture": "x86_64", "public_ip": False})
    assert cost(x86).task == pytest.approx(0.04048 + 4 * 0.004445 + DISK)


@pytest.mark.parametrize(("beats", "lasts_s"), [(0, 1), (7, 1_900)])
def test_transitions_are_the_states_that_the_machine_enters(beats: int, lasts_s: int) -> None:
    entered = sum("StateEntered" in event for event in played(lasts_s).history)
    assert cost(beats=beats).around == pytest.approx(entered * PRICES.transition)


@pytest.mark.parametrize(
    ("changes", "seconds", "is_exact"),
    [
        ({"task_from": NOW + timedelta(seconds=12)}, 3588, True),
        ({"task_from": None, "task_until": None}, 3600, False),
        ({"task_until": None, "ended_at": None}, 3600, False),  # until now
        ({"task_arn": None}, 0, False),
    ],
)
def test_a_task_is_charged_for_the_time_that_ecs_reports_or_from_the_claim_to_the_end(
    changes: dict[str, object], seconds: float, *, is_exact: bool
) -> None:
    found = cost(**changes)
    assert (found.task_s, found.is_exact) == (seconds, is_exact)


def test_the_sum_is_split_by_what_it_was_spent_on() -> None:
    good, bad = cost(), cost(kind="failed", state=State.RELEASED)
    found = sums([good, bad])
    assert found["total"] == pytest.approx(good.total + bad.total)
    assert (found["succeeded"], found["failed"]) == (good.total, bad.total)
    assert found["cancelled"] == 0


def test_what_is_next_to_nothing_is_said_to_be_less() -> None:
    said = [money(each) for each in (0, 3.07e-8, 0.000123, 0.0803, 1.5)]
    assert said == ["0", "<0.0001", "0.000123", "0.0803", "1.50"]
