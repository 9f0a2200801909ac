"""A tree of jobs as a graph: its stages as columns, with the number of jobs in each state. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from longhaul.settings import Stage
from longhaul.trees import WAITS, TreeJob

MAX_LISTED = 100
"""The most jobs of a stage that are listed: those that need attention first."""

ORDER = (
    "DEAD",
    "UNREADABLE",
    "CANCELLING",
    "RUNNING",
    "RELEASED",
    "QUEUED",
    "CANCELLED",
    "SUCCEEDED",
    WAITS,
)
"""The states, those that need attention first."""


def worst(states: Iterable[str]) -> str:
    """The state that needs attention first."""
    return min(states, key=ORDER.index)


@dataclass(frozen=True)
class Share:
    """A part of a stage's bar: from `begin` on, `width` of it, both in percent."""

    state: str
    jobs: int
    begin: float
    width: float


def bar(states: Mapping[str, int]) -> Sequence[Share]:
    """The number of jobs in each state as the parts of a bar, the successes at the left."""
    found = [(each, states[each]) for each in reversed(ORDER) if each != WAITS and states.get(each)]
    total = sum(jobs for _, jobs in found)
    begins = accumulate((jobs for _, jobs in found), initial=0)
    return [
        Share(state, jobs, 100 * begin / total, 100 * jobs / total)
        for begin, (state, jobs) in zip(begins, found, strict=False)
    ]


@dataclass
class StageBox:
    """The jobs of a tree in one stage."""

    name: str
    jobs: list[TreeJob] = field(default_factory=list)

    @property
    def states(self) -> Mapping[str, int]:
        """The number of jobs in each state, those that need attention first; no waiting joins."""
        counts: Counter[str] = Counter(job.state for job in self.jobs)
        return {state: counts[state] for state in ORDER if state != WAITS and counts[state]}

    @property
    def listed(self) -> Sequence[TreeJob]:
        """The jobs to list: at most `MAX_LISTED`."""
        return sorted(self._shown, key=lambda job: ORDER.index(job.state))[:MAX_LISTED]

    @property
    def more(self) -> int:
        """How many are not listed."""
        return max(0, len(self._shown) - MAX_LISTED)

    @property
    def _shown(self) -> list[TreeJob]:
        return [job for job in self.jobs if job.state != WAITS]


def columns(tree: TreeJob, stages: Sequence[Stage]) -> Sequence[Sequence[StageBox]]:
    """The stages of a tree in columns: each to the right of all that lead to it."""
    boxes: dict[str, StageBox] = {}
    for job in tree.all():
        boxes.setdefault(job.stage, StageBox(job.stage)).jobs.append(job)
    following = {stage.name: stage.next for stage in stages}
    depths = dict.fromkeys(boxes, 0)
    # Each round moves what follows one further; a pipeline has no circle.
    for _ in boxes:
        for name in boxes:
            for each in following.get(name, ()):
                if each in depths:
                    depths[each] = max(depths[each], depths[name] + 1)
    return [
        [box for name, box in boxes.items() if depths[name] == depth]
        for depth in sorted({*depths.values()})
    ]
