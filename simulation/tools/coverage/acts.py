"""Which acts meet a job's row in which state."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simulation.tools.coverage.cells import STATES, state_of
from simulation.worlds import acts
from simulation.worlds.plan import Act
from simulation.worlds.world import World

OF_NO_JOB = frozenset({"outage", "narrow", "retire", "submit_invalid", "redrive_dead_letters"})
"""These concern all jobs, whatever their state."""


class Met:
    """Counts pairs of an act and the state of a row."""

    def __init__(self) -> None:
        self.pairs: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def watched(self) -> Iterator[None]:
        usual = acts.KINDS
        acts.KINDS = {kind: self._watched(kind, do) for kind, do in usual.items()}
        try:
            yield
        finally:
            acts.KINDS = usual

    def missed(self) -> list[tuple[str, list[str]]]:
        """The states that each act has not met."""
        return [
            (kind, [state for state in STATES if not self.pairs[kind, state]])
            for kind in sorted(acts.KINDS.keys() - OF_NO_JOB)
        ]

    def _watched(self, kind: str, do: Callable[[World, Act], None]) -> Callable[[World, Act], None]:
        def watched(world: World, act: Act) -> None:
            if kind not in OF_NO_JOB:
                keys = world.keys_of(act.job) if act.job else list(world.seen.rows)
                for key in keys:
                    self.pairs[kind, state_of(world.seen.rows.get(key))] += 1
            do(world, act)

        return watched
