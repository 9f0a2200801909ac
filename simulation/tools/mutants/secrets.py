"""Bugs about the secrets of stages."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_FAILURES: Final = "longhaul/runner/failures.py"

SECRETS: Final = (
    Mutant(
        "the error of a job shows a secret",
        _FAILURES,
        "said = without_values(mask(raw), {**(params or {})})",
        "said = without_values(raw, {**(params or {})})",
    ),
)
