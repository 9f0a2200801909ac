"""The seeded bugs themselves; whether each is found, `make mutants` says."""

import subprocess
import sys

import pytest

from tests.simulation.mutants.applied import ROOT, mutated
from tests.simulation.mutants.catalogue import ALL, MUTANTS


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_still_fits_the_code_and_is_python(name: str) -> None:
    for change in MUTANTS[name].changes:
        compile(mutated(change), change.file, "exec")


def test_no_name_is_taken_twice() -> None:
    assert len(MUTANTS) == len(ALL) >= 20


def test_a_mutant_is_found(capfd: pytest.CaptureFixture[str]) -> None:
    """One of them, as the gate does it."""
    command = [sys.executable, "-m", "tests.simulation.mutants", "delete before publish"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert capfd.readouterr().out.splitlines()[-1] == "mutants=1 killed=1"
