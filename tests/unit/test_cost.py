"""Prices times usage, and what the money went into."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import ValidationError

from console.prices import USUAL, read_prices
from longhaul.domain.cost import Cost, Fate, JobCost, Pricing, by_fate, by_stage, fate
from longhaul.domain.history import Attempt
from longhaul.domain.lease import State
from longhaul.domain.prices import Prices
from longhaul.domain.schedule import interval_s
from longhaul.domain.timeline import lane
from longhaul.domain.what_if import beats_within, outlooks, scenarios
from longhaul.settings import LeaseSettings, TaskSettings, TaskSize
from tests.builders import NOW, running, settings

TASKS = TaskSettings(sizes={"small": TaskSize(cpu=1024, memory_mib=4096, disk_gib=30)})
SETTINGS = settings(tasks=TASKS)
PRICING = Pricing(read_prices(), SETTINGS)
HOUR = timedelta(hours=1)


def attempt(n: int = 1, kind: str | None = "succeeded", state: State = State.SUCCEEDED, **changes: object) -> Attempt:
    row = running()
    made = Attempt(
        *(row.key, row.stage, row.run, n, "small", "FARGATE"),
        claimed_at=NOW,
        started_at=NOW,
        ended_at=NOW + HOUR if kind else None,
        task_from=NOW,
        task_until=NOW + HOUR,
        task_arn="arn:task/1",
        kind=kind,
        state=state,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def job(*attempts: Attempt, stage: str = "main") -> JobCost:
    return PRICING.job(lane(replace(running(), stage=stage), attempts), NOW + HOUR)


def test_an_hour_of_a_small_task_is_what_the_price_list_says() -> None:
    cost = job(attempt()).cost
    assert cost.cpu == pytest.approx(0.03238)
    assert cost.memory == pytest.approx(4 * 0.00356)
    assert cost.disk == pytest.approx(10 * 0.000111)
    assert cost.public_ip == pytest.approx(0.005)
    assert cost.task == pytest.approx(0.05273)
    assert cost.total == pytest.approx(sum(cost.parts().values()))
    # All else of a job of an hour is about one and a half per cent of it.
    assert 0.0005 < cost.total - cost.task < 0.002


def test_x86_spot_and_private_subnets_have_their_own_prices() -> None:
    x86 = Pricing(
        PRICING.prices, settings(tasks=TASKS.model_copy(update={"architecture": "x86_64", "public_ip": False}))
    )
    cost = x86.job(lane(running(), [attempt()]), NOW).cost
    assert (cost.cpu, cost.public_ip) == (pytest.approx(0.04048), 0)
    spot = job(attempt(capacity="FARGATE_SPOT")).cost
    assert (spot.cpu, spot.disk) == (pytest.approx(0.3 * 0.03238), pytest.approx(10 * 0.000111))


def test_a_task_of_seconds_is_paid_for_a_minute_and_none_for_nothing() -> None:
    blink = job(attempt(task_until=NOW + timedelta(seconds=5))).cost
    assert blink.cpu == pytest.approx(0.03238 / 60)
    assert job(attempt(task_arn=None)).cost.task == 0
    assert job(attempt(task_arn=None)).cost.transitions == pytest.approx(9 * 0.000025)


@pytest.mark.parametrize(
    ("kind", "state", "wanted"),
    [
        ("succeeded", State.SUCCEEDED, Fate.USEFUL),
        ("succeeded", State.RELEASED, Fate.FAILED),  # the commit was void
        ("failed", State.RELEASED, Fate.FAILED),
        ("stalled", State.DEAD, Fate.FAILED),
        ("no_output", State.RELEASED, Fate.FAILED),
        ("interrupted", State.RELEASED, Fate.INTERRUPTED),
        ("cancelled", State.CANCELLED, Fate.CANCELLED),
        (None, State.RUNNING, Fate.RUNNING),
    ],
)
def test_what_the_money_went_into(kind: str | None, state: State, wanted: Fate) -> None:
    assert fate(attempt(kind=kind, state=state)) is wanted


def test_sums_by_fate_and_stage_are_those_of_the_attempts() -> None:
    first = job(attempt(kind="failed", state=State.RELEASED), attempt(2))
    second = job(attempt(kind="interrupted", state=State.RELEASED), stage="clean")
    fates = by_fate([first, second])
    assert sum(fates.values()) == pytest.approx(first.cost.total + second.cost.total)
    assert fates[Fate.USEFUL] == pytest.approx(first.cost.total / 2)
    assert fates[Fate.CANCELLED] == 0
    assert [(name, len(found)) for name, found in by_stage([first, second]).items()] == [("clean", 1), ("main", 1)]


def test_an_unknown_size_costs_no_task_but_all_else() -> None:
    cost = job(attempt(size="gone")).cost
    assert (cost.cpu, cost.memory, cost.disk) == (0, 0, 0)
    assert cost.transitions > 0


def test_beats_follow_the_real_schedule() -> None:
    numbers = LeaseSettings()
    assert beats_within(14, numbers) == 0
    assert beats_within(16, numbers) == 1
    # A job of twelve hours stays under two hundred.
    assert 150 < beats_within(12 * 3600, numbers) < 200
    age = float(interval_s(0, numbers))
    for _ in range(beats_within(1000, numbers)):
        assert age < 1000
        age += interval_s(age, numbers)
    assert age >= 1000


def test_a_denser_heartbeat_costs_more_and_a_crash_is_seen_sooner() -> None:
    found = {each.scenario.name: each for each in outlooks([job(attempt())], PRICING)}
    now, often = found["as it is"], found["waits of 15 s, always"]
    assert often.beats == 239 > now.beats
    assert often.cost.total > now.cost.total
    assert often.unseen_s < now.unseen_s == 435
    assert often.cost.task == now.cost.task
    assert often.cost.transitions - now.cost.transitions == pytest.approx(3 * (often.beats - now.beats) * 0.000025)


def test_spot_changes_the_tasks_and_nothing_else() -> None:
    found = {each.scenario.name: each for each in outlooks([job(attempt())], PRICING)}
    spot, demand = found["all on Spot"], found["all on demand"]
    assert spot.cost.cpu == pytest.approx(demand.cost.cpu * 0.3)
    assert (spot.beats, spot.cost.transitions, spot.cost.disk) == (
        demand.beats,
        demand.cost.transitions,
        demand.cost.disk,
    )


@pytest.mark.parametrize(
    "numbers", [LeaseSettings(), LeaseSettings(beat_floor_s=300), LeaseSettings(beat_fraction=0.5)]
)
def test_every_scenario_is_another_setting_and_could_be_deployed(numbers: LeaseSettings) -> None:
    found = scenarios(numbers)
    assert (found[0].name, found[0].numbers) == ("as it is", numbers)
    assert all(LeaseSettings.model_validate(each.numbers.model_dump()) == each.numbers for each in found)
    assert len({(each.numbers, each.spot) for each in found}) == len(found)


def test_the_price_table_names_a_source_for_each_price_and_refuses_what_it_does_not_know() -> None:
    table = json.loads(USUAL.read_text())
    groups = [group for group in table.values() if isinstance(group, dict)]
    assert len(groups) == 7
    assert all(group["source"].startswith("https://aws.amazon.com/") for group in groups)
    with pytest.raises(ValidationError):
        Prices.model_validate({**table, "glacier": 1})
    assert sum([Cost(cpu=1), Cost(disk=2)], Cost()).total == 3
