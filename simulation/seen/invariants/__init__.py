"""What must hold in every world: S1 to S18 and L1 to L13 of docs/reliability.md.

Each module enters its checks into `table.TABLE`.
"""

from simulation.seen.invariants import (
    attempts,
    code,
    ending,
    follow_ons,
    messages,
    notices,
    output,
    redrives,
    runs,
    stages,
    tables,
    timing,
)

__all__ = [
    "attempts",
    "code",
    "ending",
    "follow_ons",
    "messages",
    "notices",
    "output",
    "redrives",
    "runs",
    "stages",
    "tables",
    "timing",
]
