"""Bugs that systems of this kind have had. Each must make an invariant fail.

A mutant changes the real code, and its name says what the changed code does wrong.
"""

from collections.abc import Mapping
from typing import Final

from simulation.tools.mutants.emr import EMR
from simulation.tools.mutants.fence import FENCE
from simulation.tools.mutants.follow_ons import FOLLOW_ONS
from simulation.tools.mutants.messages import MESSAGES
from simulation.tools.mutants.mutant import Mutant
from simulation.tools.mutants.notices import NOTICES
from simulation.tools.mutants.outcome import OUTCOME
from simulation.tools.mutants.output import OUTPUT
from simulation.tools.mutants.rare import RARE
from simulation.tools.mutants.saved import SAVED
from simulation.tools.mutants.secrets import SECRETS
from simulation.tools.mutants.tables import TABLES
from simulation.tools.mutants.tiny import TINY
from simulation.tools.mutants.when_sent import WHEN_SENT

ALL: Final = (
    *(*FENCE, *MESSAGES, *WHEN_SENT, *OUTCOME, *OUTPUT, *TABLES),
    *(*FOLLOW_ONS, *NOTICES, *RARE, *TINY, *EMR, *SAVED, *SECRETS),
)
MUTANTS: Final[Mapping[str, Mutant]] = {mutant.name: mutant for mutant in ALL}
