"""What must hold in every world: S1 to S16 and L1 to L11 of docs/reliability.md.

Each module enters its checks into `table.TABLE`.
"""

from simulation.seen.invariants import (
    attempts,
    code,
    ending,
    follow_ons,
    messages,
    output,
    redrives,
    runs,
    stages,
    timing,
)

__all__ = [
    "attempts",
    "code",
    "ending",
    "follow_ons",
    "messages",
    "output",
    "redrives",
    "runs",
    "stages",
    "timing",
]
