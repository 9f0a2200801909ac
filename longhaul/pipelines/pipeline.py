"""What stages lead to, and what each join waits for. Pure, of a stack's settings alone.

A join belongs to a job of its *opener*, a stage before it: it starts once, when all that descends
from that one job in the stage before the join has succeeded. What descends from another join is one
job, however many that join had collected. So here an edge leads from a join's opener to the join,
and none from the stage before it:

    plan ──► fetch ──► clean ──► [delays]          the settings: clean leads to delays
      └──────────────────────────────► delays      here: delays follows from plan
"""

from collections.abc import Iterable, Mapping, Sequence

from longhaul.core.settings import Stage, StageSettings


class Pipeline:
    """The stages of a stack, as far as they are known.

    A join without a name for its opener gets the nearest stage that can split what leads to it.
    """

    def __init__(self, stages: Iterable[StageSettings]) -> None:
        self._stages = {stage.name: stage for stage in stages}
        self._before: dict[str, list[str]] = {name: [] for name in self._stages}
        for stage in self._stages.values():
            for name in stage.next:
                if name in self._before:
                    self._before[name].append(stage.name)
        self._openers: dict[str, str] = {}
        for name in self._joins_in_order():
            nearest = next(iter(self.splits(name)), self.collected(name))
            self._openers[name] = opener_named(self._stages[name]) or nearest

    @property
    def joins(self) -> Sequence[str]:
        """The stages that join, each behind those that lead to it."""
        return tuple(self._openers)

    def opener(self, join: str) -> str:
        """The stage whose jobs the join belongs to."""
        return self._openers[join]

    def collected(self, join: str) -> str:
        """The stage before the join: the outputs of its jobs are what the join reads."""
        return self._before[join][0]

    def leads(self, stage: str, join: str) -> bool:
        """Whether the join waits for jobs of this stage: they are collected, or lead there."""
        if join not in self._openers or stage not in self._stages:
            return False
        return stage in self._upstream(self.collected(join))

    def opened_by(self, stage: str) -> Sequence[str]:
        """The joins that belong to a job of this stage, each behind those that lead to it."""
        return [
            join
            for join, opener in self._openers.items()
            if opener == stage and self.leads(stage, join)
        ]

    def not_opened_from(self, stage: str) -> Sequence[str]:
        """The joins behind a stage that nothing starts which is sent there by hand.

        It belongs to no job of their openers.
        """
        return [
            join
            for join, opener in self._openers.items()
            if join != stage
            and self.is_behind(join, stage)
            and opener != stage
            and not self._reaches(stage, opener)
        ]

    def is_behind(self, stage: str, join: str) -> bool:
        """Whether the stage is the join, or one to which that leads."""
        found = [join]
        for name in found:
            following = self._stages[name].next if name in self._stages else ()
            found += [each for each in following if each not in found]
        return stage in found

    def splits(self, join: str) -> Sequence[str]:
        """The stages that can split what leads to the join, the nearest first.

        Such a stage leads to another that is no join, and that leads on: it may emit for it.
        """
        upstream = self._upstream(self.collected(join))
        found = (
            name
            for name in upstream
            if any(
                each in upstream and not self._stages[each].join for each in self._stages[name].next
            )
        )
        return tuple(found)

    def around(self, join: str) -> Sequence[str]:
        """The stages that lead to a join without its opener, and yet lead to the opener."""
        opener = self._openers[join]
        without = self._upstream(self.collected(join), barred=opener)
        return tuple(name for name in without if self._reaches(name, opener))

    def _joins_in_order(self) -> Sequence[str]:
        """The joins with a stage before them, each behind the joins that lead to it."""
        done: dict[str, None] = {}

        def visit(name: str, path: tuple[str, ...]) -> None:
            if name in done or name in path:
                return
            for before in self._before[name]:
                visit(before, (*path, name))
            done[name] = None

        for name in self._stages:
            visit(name, ())
        return [name for name in done if self._stages[name].join and self._before[name]]

    def _sources(self, name: str) -> Sequence[str]:
        """From where jobs of a stage come: a join's from its opener."""
        if self._stages[name].join:
            return [self._openers[name]] if name in self._openers else []
        return self._before[name]

    def _upstream(self, name: str, barred: str | None = None) -> Mapping[str, None]:
        """The stage and all that lead to it, the nearest first; none beyond the one barred."""
        found = dict.fromkeys([name] if name != barred else [])
        queue = list(found)
        for each in queue:
            for source in self._sources(each):
                if source in self._stages and source not in found and source != barred:
                    found[source] = None
                    queue.append(source)
        return found

    def _reaches(self, name: str, other: str) -> bool:
        return name != other and other in self._stages and name in self._upstream(other)


def opener_named(stage: StageSettings) -> str | None:
    """The opener that the settings of a join name."""
    if isinstance(stage, Stage):
        return stage.opener
    return stage.join if isinstance(stage.join, str) else None
