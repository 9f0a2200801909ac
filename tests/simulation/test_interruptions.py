"""The figures of docs/checkpoints.md: long jobs that Spot interrupts again and again."""

from functools import cache
from itertools import product
from typing import Any

import pytest

from benchmarks.interruptions import BETWEEN_H, PART_S, WORK_H, figures, formula

CELLS = list(product(WORK_H, BETWEEN_H))
OFTEN = [(work_h, between_h) for work_h, between_h in CELLS if between_h >= 8]


@cache  # not while the tests are collected: each worker would play all jobs
def played() -> dict[tuple[int, int], dict[str, Any]]:
    return {(line["work_h"], line["between_h"]): line for line in figures(300)}


@pytest.mark.parametrize("cell", OFTEN)
def test_with_checkpoints_interruptions_cost_less_than_a_tenth(cell: tuple[int, int]) -> None:
    assert played()[cell]["with"]["ratio"] <= 1.10
    assert played()[cell]["with"]["on_demand"] <= 0.05


@pytest.mark.parametrize("cell", CELLS)
def test_what_is_played_agrees_with_the_formula(cell: tuple[int, int]) -> None:
    found = played()[cell]["with"]
    assert found["ratio"] == pytest.approx(found["spot_alone_by_formula"], rel=0.02)


def test_a_day_on_spot_alone_without_checkpoints_takes_six() -> None:
    assert formula(24 * 3600, 8 * 3600, None) == pytest.approx(6.37, abs=0.01)
    assert formula(24 * 3600, 8 * 3600, PART_S) < 1.05


def test_each_amount_of_work_is_played_with_each_time_between_interruptions() -> None:
    assert list(played()) == CELLS
