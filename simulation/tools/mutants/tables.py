"""Bugs about outputs to tables."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CATALOG: Final = "longhaul/adapters/iceberg/catalog.py"
_COMMITS: Final = "longhaul/adapters/iceberg/commits.py"
_HISTORY: Final = "longhaul/adapters/iceberg/history.py"

TABLES: Final = (
    Mutant(
        "a publication does not look for its own commit",
        _HISTORY,
        "return token in kept or any(summary_of(snapshot).get(TOKEN) == token for snapshot in table.metadata.snapshots)",
        "return False",
    ),
    Mutant(
        "the look for one's own commit stops at the current snapshot",
        _HISTORY,
        "return token in kept or any(summary_of(snapshot).get(TOKEN) == token for snapshot in table.metadata.snapshots)",
        "return any(summary_of(snapshot).get(TOKEN) == token for snapshot in [table.current_snapshot()] if snapshot)",
    ),
    Mutant(
        "a commit whose snapshot has expired was never made",
        _HISTORY,
        "token in kept or any",
        "any",
    ),
    Mutant(
        "a commit without an answer is made again",
        _COMMITS,
        "if not is_due:\n    return\ntry:",
        "try:",
    ),
    Mutant(
        "a commit to a table does not name its version",
        _CATALOG,
        "def _load_file_io(",
        "def _update_glue_table(self, database_name, table_name, table_input, version_id):\n"
        "        self.glue.update_table(DatabaseName=database_name, TableInput=table_input, SkipArchive=True)\n\n"
        "    def _load_file_io(",
    ),
    Mutant(
        "a commit that was refused counts",
        _COMMITS,
        "logger.info('a commit in vain', extra={'error': type(error).__name__})",
        "return",
    ),
    Mutant(
        "an overwrite of a table takes away what came since its upload",
        _COMMITS,
        "return to_replace(self.table, since, None)",
        "return to_replace(self.table, self.table.metadata.current_snapshot_id, None)",
    ),
    Mutant(
        "an append to a table replaces its rows",
        _COMMITS,
        "or self.pending.mode == 'append'",
        "",
    ),
    Mutant(
        "a compaction hides what an overwrite replaces",
        _HISTORY,
        "files = files - touched | _rewritten(touched, change)",
        "files = files - touched",
    ),
)
