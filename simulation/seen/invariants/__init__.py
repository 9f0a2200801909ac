"""What must hold in every world: S1 to S25 and L1 to L15 of docs/internals/reliability.md.

Each module enters its checks into `checks.TABLE`.
"""

from simulation.seen.invariants import (
    attempts,
    ending,
    follow_ons,
    messages,
    output,
    runs,
    saved,
    tables,
    timing,
    trees,
)

__all__ = [
    "attempts",
    "ending",
    "follow_ons",
    "messages",
    "output",
    "runs",
    "saved",
    "tables",
    "timing",
    "trees",
]
