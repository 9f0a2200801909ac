"""What must hold in every world: S1 to S21 and L1 to L14 of docs/reliability.md.

Each module enters its checks into `table.TABLE`.
"""

from simulation.seen.invariants import (
    attempts,
    code,
    ending,
    follow_ons,
    labels,
    messages,
    notices,
    output,
    redrives,
    runs,
    saved,
    secrets,
    stages,
    tables,
    timing,
)

__all__ = [
    "attempts",
    "code",
    "ending",
    "follow_ons",
    "labels",
    "messages",
    "notices",
    "output",
    "redrives",
    "runs",
    "saved",
    "secrets",
    "stages",
    "tables",
    "timing",
]
