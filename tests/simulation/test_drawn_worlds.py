"""Worlds drawn from seeds; `make soak` runs more of them."""

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.generation import plan_of
from simulation.worlds.run import play
from simulation.worlds.world import World


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 100), marks=pytest.mark.slow)])
def test_every_invariant_holds_in_worlds_of_many_faults(seeds: range) -> None:
    assert all_hold(seeds) == len(seeds)


def test_the_target_of_notices_is_out_in_some_worlds() -> None:
    plans = [plan_of(seed) for seed in range(200)]
    out = {
        plan.notify
        for plan in plans
        for act in plan.acts
        if act.kind == "outage" and act.service == plan.notify
    }

    assert out >= {"sns", "events"}


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_a_world_is_the_same_each_time(seed: int) -> None:
    def left() -> list[object]:
        world = World(plan_of(seed))
        play(world)
        rows = [
            (name, str(key), row.item)
            for name, table in world.aws.dynamodb.tables.items()
            for key, row in table.rows.items()
        ]
        assert rows
        return [rows, world.injector.fired, world.virtual_s]

    assert left() == left()
