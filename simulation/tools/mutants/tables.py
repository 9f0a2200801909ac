"""Bugs about outputs to tables."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_COMMITS: Final = "longhaul/outputs/iceberg/commits.py"
_HISTORY: Final = "longhaul/outputs/iceberg/history.py"

TABLES: Final = (
    Mutant(
        "a publication does not look for its own commit",
        _HISTORY,
        "return token in kept or any(summary_of(snapshot).get(TOKEN) == token for snapshot in table.metadata.snapshots)",
        "return False",
    ),
    Mutant(
        "a commit without an answer is made again",
        _COMMITS,
        "if not is_due:\n    return\ntry:",
        "try:",
    ),
    Mutant(
        "an overwrite of a table takes away what came since its upload",
        _COMMITS,
        "return to_replace(self.table, since, None)",
        "return to_replace(self.table, self.table.metadata.current_snapshot_id, None)",
    ),
)
