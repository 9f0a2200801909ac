"""What people call jobs."""

import json
from typing import TYPE_CHECKING

from simulation.seen.invariants.table import invariant

if TYPE_CHECKING:
    from simulation.seen.record import Seen
    from simulation.seen.trace import Row

_NAMES = ("label", "tags")


@invariant("S20", "the end", "a later run of a job, and all that follows from it, is called alike")
def called_alike(seen: "Seen", _: None) -> str | None:
    """Through copies, retries, redrives and corrections. A row that has expired says nothing."""
    for key, row in seen.rows.items():
        lineage = json.loads(row["lineage"]["S"]) if "lineage" in row else {"root": key}
        root = seen.rows.get(lineage["root"])
        if root is None or key in seen.forged_keys or _is_mark(row) or _is_mark(root):
            continue
        for name in _NAMES:
            if name in root and row.get(name) != root[name]:
                return f"{key} has {name} {row.get(name)}, and its root {root[name]}"
    return None


def _is_mark(row: "Row") -> bool:
    return bool(row["attempt"]["N"] == "0")
