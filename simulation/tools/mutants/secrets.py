"""Bugs about the secrets of stages."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_FAILURES: Final = "longhaul/runner/failures.py"

SECRETS: Final = (
    Mutant(
        "the error of a job shows a secret",
        _FAILURES,
        "said = mask(raw)",
        "said = raw",
    ),
)
