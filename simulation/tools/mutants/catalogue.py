"""Bugs that systems of this kind have had. Each must make an invariant fail.

A mutant changes the real code, and its name says what the changed code does wrong.
"""

from collections.abc import Mapping
from typing import Final

from simulation.tools.mutants.features import (
    EMR,
    FOLLOW_ONS,
    NOTICES,
    OUTPUT,
    SAVED,
    SECRETS,
    TABLES,
    TINY,
)
from simulation.tools.mutants.mutant import Mutant
from simulation.tools.mutants.protocol import FENCE, MESSAGES, OUTCOME, RARE, WHEN_SENT

ALL: Final = (
    *(*FENCE, *MESSAGES, *WHEN_SENT, *OUTCOME, *OUTPUT, *TABLES),
    *(*FOLLOW_ONS, *NOTICES, *RARE, *TINY, *EMR, *SAVED, *SECRETS),
)
MUTANTS: Final[Mapping[str, Mutant]] = {mutant.name: mutant for mutant in ALL}
