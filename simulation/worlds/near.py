"""Worlds of the systematic kind, with drawn faults, and with drawn acts beside theirs.

Each brings something rare about, in few and short jobs. What meets it there by chance would have to
wait for hundreds of other worlds.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from simulation.worlds.cost import USUAL, cost_of
from simulation.worlds.emr import EMR_WORLDS
from simulation.worlds.governed import GOVERNED_WORLDS
from simulation.worlds.leftovers import LEFTOVERS
from simulation.worlds.parts import PARTS_WORLDS
from simulation.worlds.plan import Act, Plan
from simulation.worlds.planned import PLANNED_WORLDS
from simulation.worlds.regressions import REGRESSIONS
from simulation.worlds.secrets import SECRET_WORLDS
from simulation.worlds.tables import TABLE_WORLDS
from simulation.worlds.tiny import TINY_WORLDS
from simulation.worlds.trees import TREE_WORLDS

_MOVED = 0.5
_BY = 0.2  # of the time of an act

_FAMILIES = (
    *(EMR_WORLDS, GOVERNED_WORLDS, LEFTOVERS, PARTS_WORLDS, PLANNED_WORLDS, REGRESSIONS),
    *(SECRET_WORLDS, TABLE_WORLDS, TINY_WORLDS, TREE_WORLDS),
)
BASES: Sequence[Sequence[Plan]] = [
    [plan for plan in worlds.values() if not plan.faults and cost_of(plan) <= 2 * USUAL]
    for worlds in _FAMILIES
]
"""By family the worlds that need no fault at a place of its own."""


def near_one(rng: random.Random, drawn: Plan) -> Plan:
    """A systematic world with the seed and the mix of a drawn one; half of its acts are moved."""
    base = rng.choice(rng.choice(BASES))
    acts = [_moved(rng, act) if rng.random() < _MOVED else act for act in base.acts]
    return replace(
        base,
        seed=drawn.seed,
        mix=drawn.mix,
        faults=None,
        acts=tuple(sorted(acts, key=lambda act: act.at_s)),
        notify=base.notify or drawn.notify,
    )


def _moved(rng: random.Random, act: Act) -> Act:
    if act.kind == "submit":
        return act
    return replace(act, at_s=round(act.at_s * (1 + _BY * (2 * rng.random() - 1)), 1))
