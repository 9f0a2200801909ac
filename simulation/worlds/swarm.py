"""Which kinds of acts, endings and faults a world has: in a swarm, about half of them.

A world with everything in it shows little of what only a few things bring about together: the rest
ends the job first. So in most worlds each kind is on or off by a coin of its own, and the kinds
that are on happen more often.

The coin belongs to the world's seed and the name of the kind. A plan says only whether it is a
swarm, a new kind moves no other, and a replay, which names its faults, needs none of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from simulation.worlds.plan import Act, Plan
from simulation.worlds.randomness import unit


@dataclass(frozen=True)
class Swarm:
    """The kinds of one world; `is_one` is False for a world that has them all."""

    seed: int
    is_one: bool

    @classmethod
    def of(cls, plan: Plan) -> "Swarm":
        return cls(plan.seed, plan.mix.swarm)

    def has(self, kind: str) -> bool:
        return not self.is_one or unit(self.seed, f"swarm/{kind}") < 0.5

    def some(self, kinds: Sequence[str]) -> Sequence[str]:
        """Those of the kinds that are on; of endings at least one."""
        return [kind for kind in kinds if self.has(kind)] or kinds

    def keeps(self, act: Act) -> bool:
        """Whether an act is on."""
        return self.has(f"{act.kind}/{act.service}{act.work or ''}")
