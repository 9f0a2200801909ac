"""The seeded bugs, and the gate that puts each into the code: `make mutants`."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simulation.tools.checking import all_hold
from simulation.tools.mutants import __main__ as gate
from simulation.tools.mutants.__main__ import KNOWN
from simulation.tools.mutants.applied import ROOT, StaleMutantError, mutated
from simulation.tools.mutants.catalogue import ALL, MUTANTS
from simulation.tools.mutants.hunt import hunt
from simulation.tools.mutants.mutant import Mutant
from simulation.tools.replay import read


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_applies_to_the_code_and_compiles(name: str) -> None:
    for file, source in mutated(MUTANTS[name]).items():
        compile(source, file, "exec")


@pytest.mark.parametrize(("old", "times"), [("renew(lease)", 0), ("_number(f", 2)])
def test_change_that_is_not_in_the_code_once_is_stale(old: str, times: int) -> None:
    file = "simulation/worlds/randomness.py"
    with pytest.raises(StaleMutantError, match=f"{times} times in {file}"):
        mutated(Mutant("m", file, old, ""))


def test_two_changes_of_a_mutant_may_be_in_one_file() -> None:
    file = "simulation/worlds/randomness.py"
    second = Mutant("second", file, "_WHOLE = float(2**64)", "_WHOLE = 1.0")

    found = mutated(Mutant("first", file, "digest_size=8", "digest_size=4", also=second))

    assert list(found) == [file]
    assert "digest_size=4" in found[file]
    assert "_WHOLE = 1.0" in found[file]


def test_names_of_mutants_are_unique() -> None:
    assert len(MUTANTS) == len(ALL) >= 20


@pytest.mark.slow
def test_every_invariant_holds_without_the_mutants_in_the_worlds_that_kill_them() -> None:
    known = json.loads(KNOWN.read_text())

    worlds = set(map(read, known.values()))

    assert known.keys() <= MUTANTS.keys()
    assert all_hold(worlds) == len(worlds) > 20


def test_mutant_whose_known_world_shows_it_no_more_is_stale(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "two tasks work on one attempt"
    shows_nothing = replace(read(json.loads(KNOWN.read_text())[name]), faults=())
    other = tmp_path / "known.json"
    other.write_text(json.dumps({name: shows_nothing.to_json()}))
    monkeypatch.setattr(gate, "KNOWN", other)
    monkeypatch.setattr("sys.argv", ["mutants", name])

    assert gate.main() == 1
    assert "STALE: " in capsys.readouterr().err


def test_a_hunt_that_ends_in_an_error_says_so() -> None:
    name = "two tasks work on one attempt"

    broken = hunt(name, 1, "no plan")

    assert broken["violated"] is None
    assert broken["why"].startswith("BROKE THE SIMULATION: ")
    assert "neither a seed nor a plan" in broken["why"]


@pytest.mark.slow
def test_gate_finds_every_mutant(
    capfd: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    command = [sys.executable, "-m", "simulation.tools.mutants", "--processes", "1"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    last = capfd.readouterr().out.splitlines()[-1]
    assert last == f"mutants={len(ALL)} killed={len(ALL)}"
    record_property("says", last)
