"""What must hold in every world: S1 to S25 and L1 to L15 of docs/internals/reliability.md.

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
    reruns,
    runs,
    saved,
    secrets,
    stages,
    tables,
    timing,
    trees,
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
    "reruns",
    "runs",
    "saved",
    "secrets",
    "stages",
    "tables",
    "timing",
    "trees",
]
