"""Bugs of jobs on EMR Serverless."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_ENDS: Final = "longhaul/engines/emr_serverless/ends.py"

EMR: Final = (
    Mutant(
        "a driver's exit code is not read",
        _ENDS,
        "return int(match[1]) if match else None",
        "return None",
    ),
)
