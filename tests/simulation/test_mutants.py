"""The seeded bugs themselves, and the gate that puts each into the code: `make mutants`."""

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
    assert gate("delete before publish") == 0
    assert capfd.readouterr().out.splitlines()[-1] == "mutants=1 killed=1"


@pytest.mark.slow
def test_every_mutant_is_found(capfd: pytest.CaptureFixture[str]) -> None:
    assert gate() == 0
    assert capfd.readouterr().out.splitlines()[-1] == f"mutants={len(ALL)} killed={len(ALL)}"


def gate(*names: str) -> int:
    command = [sys.executable, "-m", "tests.simulation.mutants", "--processes", "1", *names]
    return subprocess.run(command, cwd=ROOT, check=False).returncode
