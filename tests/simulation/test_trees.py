"""Worlds that tell the ends of trees, in which people act on whole trees."""

import random

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.generation import plan_of
from simulation.worlds.systematic import single_faults
from simulation.worlds.trees import TREE_WORLDS

RETRIED = TREE_WORLDS["a tree's end is told, and once more when its dead job was run again"]


def test_every_invariant_holds_in_each_of_the_worlds() -> None:
    assert all_hold(TREE_WORLDS.values()) == len(TREE_WORLDS)


def test_every_invariant_holds_with_some_single_faults_around_a_tree() -> None:
    plans = list(single_faults(RETRIED))
    assert all_hold(random.Random(5).sample(plans, 15)) == 15


@pytest.mark.slow
def test_every_invariant_holds_in_drawn_worlds_with_trees() -> None:
    plans = [plan for seed in range(92_000_000, 92_001_000) if (plan := plan_of(seed)).trees]
    assert len(plans) > 20
    assert all_hold(plans) == len(plans)
