"""Worlds with jobs that store what they have done, and go on from it."""

import json
from dataclasses import replace

import pytest

from simulation.seen.stored import PREFIX
from simulation.worlds.parts import PARTS_WORLDS
from simulation.worlds.plan import Plan
from simulation.worlds.run import play
from simulation.worlds.trees import TREE_WORLDS
from simulation.worlds.world import World


def played(plan: Plan) -> World:
    world = World(plan)
    play(world)
    assert world.seen.violated is None
    return world


def owners(world: World) -> dict[str, int]:
    """The attempt that computed each part of the output of `j0`, by the part's name."""
    files = world.seen.files_at("out/j0/")
    pieces = [json.loads(world.seen.objects()["out/j0/" + file].body)["piece"] for file in files]
    return {name: int(process.rpartition("-")[2].partition(".")[0]) for name, *_, process in pieces}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a job works in parts", [1, 1, 1]),
        ("a job in parts dies, and goes on", [1, 2, 2]),
        ("a job in parts is called dead, and works on", [1, 2, 2]),
        ("a job in parts dies as it commits", [1, 1, 1]),
        ("a job in parts on EMR Serverless dies, and goes on", [1, 2, 2]),
        ("a job in parts on EMR Serverless is called dead, and works on", [1, 2, 2]),
        # No others come in this attempt.
        ("a job in parts on EMR Serverless loses its executors", [1, 1, 2]),
        ("a job in parts turns out to be void", [1, 1, 1]),
        ("a dead job in parts is sent again", [1, 2, 2]),
        # Other work.
        ("a dead job in parts is corrected", [2, 2, 2]),
        # What it had stored was kept for two hours.
        ("a dead job in parts is sent again too late", [2, 2, 2]),
        # Each second part names a version of its own; new code asks for one part less.
        ("the code of a job in parts change before its next attempt", [2, 2]),
        ("new code asks no more for a part that is stored", [2, 1]),
        ("the inputs of a job in parts change before its next attempt", [2, 2, 2]),
        ("S3 is out while an attempt looks at what is stored", None),
    ],
)
def test_parts_are_computed_by_the_first_attempt_that_had_the_time(
    name: str, expected: list[int] | None
) -> None:
    found = owners(played(PARTS_WORLDS[name]))

    if expected is None:  # by how many attempts it was tried is not the point
        assert found["part 0"] == 1
        assert found["part 2"] > 1
    else:
        assert [found[part] for part in sorted(found)] == expected


def test_what_a_dead_job_has_stored_waits_for_its_redrive() -> None:
    world = played(replace(PARTS_WORLDS["a dead job in parts is never sent again"], kept_s=0))

    assert any(name.startswith(PREFIX) for name in world.seen.objects())


# Worlds in which people act on whole trees, and those whose jobs a backfill sends.


def test_a_tree_is_run_again_once_it_and_its_reruns_have_ended_and_each_end_is_told() -> None:
    expected = {
        "a tree is run again when its end was told": ["j0"] * 2,
        "a tree is run again and again, and twice at once": ["j0"] * 3,
        "a tree is run again before it has ended": ["j0"] * 2,
        "a tree is run again before its rerun has ended": ["j0"] * 3,
        "a tree whose root has died is run again": ["j0"],
    }
    for name, roots in expected.items():
        world = played(TREE_WORLDS[name])
        assert [each["job_id"] for each in world.seen.told_trees] == roots, name
