"""What drawn worlds reach: `make coverage`."""

import subprocess
import sys
from dataclasses import replace

import pytest

from simulation.tools.coverage.acts import Met
from simulation.tools.coverage.cells import Cell, Cells, cells_of_page
from simulation.tools.mutants.applied import ROOT
from simulation.worlds.plan import Act, Ending, Job, Plan
from simulation.worlds.run import play
from simulation.worlds.world import World

PLAN = Plan(
    jobs=(Job("j0", work_s=9.0, endings=(Ending("fails", 5.0),)),),
    acts=(Act(1.0, "submit", "j0"), Act(20.0, "cancel", "j0")),
    faults=(),
)


def reached_by(plan: Plan) -> Cells:
    cells = Cells()
    with cells.watched():
        cells.world = World(plan)
        play(cells.world)
    return cells


def test_every_cell_that_a_world_reaches_is_on_the_page() -> None:
    plans = [replace(PLAN, acts=(PLAN.acts[0], Act(at, "cancel", "j0"))) for at in (20, 70, 90)]
    found = [reached_by(plan).reached for plan in plans]

    assert set().union(*found) <= set(cells_of_page())


def test_world_reaches_the_cells_of_what_happens_in_it() -> None:
    reached = reached_by(PLAN).reached

    assert reached[Cell("A cancel", "RUNNING")] == 1
    assert reached[Cell("A beat", "RUNNING, mine")] > 0
    assert reached[Cell("An attempt ends", "RUNNING, mine, cancel marked")] == 1


def test_watching_makes_no_other_world() -> None:
    watched = reached_by(PLAN).world
    alone = World(PLAN)
    play(alone)

    assert watched is not None
    assert watched.seen.rows == alone.seen.rows


def test_act_is_counted_with_the_state_of_the_row_that_it_met() -> None:
    met = Met()
    with met.watched():
        play(World(PLAN))

    assert met.pairs["cancel", "RUNNING, no task"] == 1


@pytest.mark.slow
def test_report_names_what_was_not_reached() -> None:
    command = [sys.executable, "-m", "simulation.tools.coverage", "--worlds", "2"]
    report = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "cells of docs/lease.md: " in report
    assert "longhaul/domain/claim.py: " in report
    assert "not reached: case " in report
    assert "TYPE_CHECKING" not in report
