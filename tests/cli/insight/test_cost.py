"""Prices times usage, and what the money is spent on."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import ValidationError

from longhaul.cli.insight.cost import (
    Cost,
    JobCost,
    Pricing,
    SpentOn,
    amounts_spent,
    by_stage,
    money,
)
from longhaul.cli.insight.prices import USUAL, Prices, read_prices
from longhaul.cli.insight.timeline import lane
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import State
from longhaul.settings import TaskSettings, TaskSize
from tests.builders import NOW, changed, record, running, settings

TASKS = TaskSettings(sizes={"small": TaskSize(cpu=1024, memory_mib=4096, disk_gib=30)})
SETTINGS = settings(tasks=TASKS)
PRICING = Pricing(read_prices(), SETTINGS)
HOUR = timedelta(hours=1)


def attempt(
    n: int = 1, kind: str | None = "succeeded", state: State = State.SUCCEEDED, **changes: object
) -> AttemptRecord:
    made = record(
        n,
        started_at=NOW,
        ended_at=NOW + HOUR if kind else None,
        task_from=NOW,
        task_until=NOW + HOUR,
        task_arn="arn:task/1",
        kind=kind,
        state=state,
    )
    return changed(made, **changes)


def job(*attempts: AttemptRecord, stage: str = "main") -> JobCost:
    return PRICING.job(lane(replace(running(), stage=stage), attempts), NOW + HOUR)


def test_an_hour_of_a_small_task_is_what_the_price_list_says() -> None:
    cost = job(attempt()).cost
    assert cost.cpu == pytest.approx(0.03238)
    assert cost.memory == pytest.approx(4 * 0.00356)
    assert cost.disk == pytest.approx(10 * 0.000111)
    assert cost.public_ip == pytest.approx(0.005)
    assert cost.task == pytest.approx(0.05273)
    assert cost.total == pytest.approx(sum(cost.parts().values()))
    # What is around a job of an hour is less than one per cent of it.
    assert 0 < cost.total - cost.task < 0.0005


def test_x86_spot_and_private_subnets_have_their_own_prices() -> None:
    x86 = Pricing(
        PRICING.prices,
        settings(tasks=TASKS.model_copy(update={"architecture": "x86_64", "public_ip": False})),
    )
    cost = x86.job(lane(running(), [attempt()]), NOW).cost
    assert (cost.cpu, cost.public_ip) == (pytest.approx(0.04048), 0)
    spot = job(attempt(capacity="FARGATE_SPOT")).cost
    assert (spot.cpu, spot.disk) == (pytest.approx(0.3 * 0.03238), pytest.approx(10 * 0.000111))


def test_an_invocation_is_charged_for_its_seconds_memory_and_disk_and_has_no_address() -> None:
    tiny = TaskSize(cpu=1741, memory_mib=3072, disk_gib=8)
    known = Pricing(PRICING.prices, settings(tasks=TaskSettings(sizes={"tiny": tiny})))
    minute = attempt(size="tiny", capacity="FARGATE_SPOT", task_until=NOW + timedelta(minutes=1))
    cost = known.job(lane(running(), [minute]), NOW).cost
    assert cost.memory == pytest.approx(60 * 3 * 0.0000133334 + 0.0000002)
    assert cost.disk == pytest.approx(60 * 7.5 * 0.0000000309)
    assert (cost.cpu, cost.public_ip) == (0, 0)
    never = attempt(size="tiny", task_arn=None)
    assert known.job(lane(running(), [never]), NOW).cost.task == 0


def test_a_task_of_seconds_is_charged_for_a_minute_and_no_task_for_nothing() -> None:
    blink = job(attempt(task_until=NOW + timedelta(seconds=5))).cost
    assert blink.cpu == pytest.approx(0.03238 / 60)
    assert job(attempt(task_arn=None)).cost.task == 0
    assert job(attempt(task_arn=None)).cost.transitions == pytest.approx(11 * 0.000025)


def test_sums_by_purpose_and_stage_add_up() -> None:
    first = job(attempt(kind="failed", state=State.RELEASED), attempt(2))
    second = job(attempt(kind="interrupted", state=State.RELEASED), stage="clean")
    fates = amounts_spent([first, second])
    assert sum(fates.values()) == pytest.approx(first.cost.total + second.cost.total)
    assert fates[SpentOn.INTERRUPTED] == pytest.approx(second.cost.total)
    assert fates[SpentOn.USEFUL] == pytest.approx(first.cost.total / 2)
    assert fates[SpentOn.CANCELLED] == 0
    assert [(name, len(found)) for name, found in by_stage([first, second]).items()] == [
        ("clean", 1),
        ("main", 1),
    ]


def test_an_unknown_size_costs_everything_but_the_task() -> None:
    cost = job(attempt(size="gone")).cost
    assert (cost.cpu, cost.memory, cost.disk) == (0, 0, 0)
    assert cost.transitions > 0


def test_the_price_table_has_a_source_for_each_price_and_refuses_unknown_fields() -> None:
    table = json.loads(USUAL.read_text())
    groups = [group for group in table.values() if isinstance(group, dict)]
    assert len(groups) == 6
    assert all(group["source"].startswith("https://aws.amazon.com/") for group in groups)
    with pytest.raises(ValidationError):
        Prices.model_validate({**table, "glacier": 1})
    assert sum([Cost(cpu=1), Cost(disk=2)], Cost()).total == 3


def test_what_the_next_attempt_went_on_from_is_not_wasted() -> None:
    cut_off = attempt(kind="interrupted", state=State.RELEASED, saved_at=NOW + 0.75 * HOUR)
    again = job(cut_off, attempt(2, claimed_at=NOW + HOUR, progress={"taken_over": "1 part"}))
    whole = again.attempts[0].cost.total
    assert amounts_spent([again])[SpentOn.SAVED] == pytest.approx(0.75 * whole)
    assert again.wasted == pytest.approx(0.25 * whole)
    afresh = job(cut_off, attempt(2, resumes="r", progress={"taken_over": "nothing: it changed"}))
    assert (afresh.wasted, job(cut_off).wasted) == (whole, whole)


def test_what_is_next_to_nothing_is_said_to_be_less() -> None:
    assert [money(each) for each in (0, 3.07e-8, 0.000123, 0.0803, 1.5)] == [
        "0",
        "<0.0001",
        "0.000123",
        "0.0803",
        "1.50",
    ]
