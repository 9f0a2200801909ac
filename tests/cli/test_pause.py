"""`longhaul stage pause`, `resume` and `slots`, and what shows them."""

import re

import pytest

from longhaul.cli.checks.finding import Level
from longhaul.cli.checks.stack import slots
from longhaul.cli.target import Target
from longhaul.core.errors import NoFreeSlotError
from tests.cli.conftest import World


def test_a_paused_stage_starts_nothing_and_all_that_shows_a_stage_says_so(
    world: World, target: Target
) -> None:
    done = world.run("stage", "pause", "main")
    assert done.exit_code == 0
    assert re.fullmatch(
        r"main: 0 of 1000 slots in use, paused since [-0-9]+ [:0-9]+Z\n", done.stdout
    )
    with pytest.raises(NoFreeSlotError):
        world.claim("one")
    assert "0 of 1000 slots in use, paused since" in world.run("status").stderr
    (finding,) = slots(target)
    assert (finding.level, "`longhaul stage resume main`" in finding.do) == (Level.PROBLEM, True)

    assert world.run("stage", "resume", "main").stdout == "main: 0 of 1000 slots in use\n"
    world.claim("one")
    (finding,) = slots(target)
    assert finding.level is Level.OK


def test_drain_returns_once_no_job_of_the_stage_runs(world: World) -> None:
    lease = world.claim("long")
    world.clock.meanwhile.append(lambda: world.end(lease))
    done = world.run("stage", "pause", "main", "--drain")
    assert (done.exit_code, "waiting for 1 job\n" in done.stderr) == (0, True)
    assert "0 of 1000 slots in use, paused" in done.stdout
    assert not world.clock.meanwhile


def test_slots_hold_until_the_deployed_number_is_given(world: World, target: Target) -> None:
    assert (
        "0 of 3 slots in use (set by hand; deployed: 1000)"
        in world.run("stage", "slots", "main", "3").stdout
    )
    assert "0 of 3 slots in use (set by hand; deployed: 1000)" in world.run("status").stderr
    (finding,) = slots(target)
    assert (finding.level, finding.do) == (
        Level.WARNING,
        "`longhaul stage slots main 1000` goes back to what is deployed",
    )
    assert world.run("stage", "slots", "main", "1000").stdout == "main: 0 of 1000 slots in use\n"


@pytest.mark.parametrize("count", ["0", "-1", "10001", "many"])
def test_impossible_numbers_and_unknown_stages_are_refused(world: World, count: str) -> None:
    assert world.run("stage", "slots", "main", count).exit_code == 2
    assert world.run("stage", "slots", "nowhere", "3").exit_code == 2
    assert world.run("stage", "pause", "nowhere").exit_code == 2
