"""Jobs as runs: a root with all that descends from it, or a backfill with its jobs. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Final

from longhaul.core.lease import ENDED, QUEUED, Lease
from longhaul.core.settings import Stage
from longhaul.pipelines.backfill import backfill_of
from longhaul.pipelines.trees import WAITS, TreeJob, led_to

ORDER: Final = (
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

MAX_LISTED: Final = 100
"""The most jobs of a stage that are listed: those that need attention first."""


def worst(states: Iterable[str]) -> str:
    """The state that needs attention first."""
    return min(states, key=ORDER.index)


@dataclass(frozen=True)
class Run:
    """What is known of a run.

    Attributes:
        key: Of its root, or of the backfill.
        jobs: Those whose rows are known.
        stages: How many jobs are in each state, by stage: also those that have no row yet.
    """

    key: str
    jobs: Sequence[Lease]
    stages: Mapping[str, Counter[str]]

    @property
    def is_backfill(self) -> bool:
        return self.jobs[0].root != self.key

    @property
    def name(self) -> str:
        """Its label, or the id of its root."""
        labels = (row.label for row in self.jobs if row.key == self.key)
        return next(labels, None) or self.key.partition("#")[2]

    @property
    def state(self) -> str:
        """The worst of its jobs: a run is as red as what died in it, whatever its root did."""
        return worst(self._states)

    @property
    def begun(self) -> datetime:
        return min(row.run_began for row in self.jobs)

    @property
    def ended_at(self) -> datetime | None:
        """None while a job of it goes on."""
        is_open = bool(self._states - {*ENDED, WAITS})
        return None if is_open else max(row.ended_at for row in self.jobs)

    @property
    def _states(self) -> set[str]:
        return {state for states in self.stages.values() for state in states}


def run_of(row: Lease) -> str:
    """The key of the run that a job belongs to."""
    return backfill_of(row) or row.root


def runs(rows: Iterable[Lease], order: Sequence[str]) -> list[Run]:
    """The runs, each in the place of its first row, with its stages in that order."""
    of: dict[str, list[Lease]] = {}
    for row in rows:
        of.setdefault(run_of(row), []).append(row)
    return [Run(key, jobs, _by_stage(jobs, order)) for key, jobs in of.items()]


def _by_stage(jobs: Sequence[Lease], order: Sequence[str]) -> Mapping[str, Counter[str]]:
    here = {row.key for row in jobs}
    states: dict[str, Counter[str]] = {}
    missing, joins = Counter[str](), set[str]()
    for row in jobs:
        states.setdefault(row.stage, Counter())[row.shown_state] += 1
        if row.lineage is not None and row.lineage.parent in here:
            missing[row.stage] -= 1
        # Of a job that ran again alone, what it had led to stays as it is.
        leads, opens = led_to(row) if not row.only else ({}, ())
        missing.update(leads)
        missing.update(opens)
        joins.update(opens)
    is_well = not any(each["DEAD"] or each["CANCELLED"] for each in states.values())
    for stage, count in missing.items():
        if count > 0:
            # A join waits for what died. Else it is to come, as all that has no row yet.
            state = QUEUED if is_well or stage not in joins else WAITS
            states.setdefault(stage, Counter())[state] += count
    return {stage: states[stage] for stage in dict.fromkeys((*order, *states)) if stage in states}


@dataclass(frozen=True)
class Share:
    """A part of a stage's bar: from `begin` on, `width` of it, both in percent."""

    state: str
    begin: float
    width: float


def bar(states: Mapping[str, int]) -> Sequence[Share]:
    """The number of jobs in each state as the parts of a bar, the successes at the left."""
    found = [(each, states[each]) for each in reversed(ORDER) if each != WAITS and states.get(each)]
    total = sum(jobs for _, jobs in found)
    begins = accumulate((jobs for _, jobs in found), initial=0)
    return [
        Share(state, 100 * begin / total, 100 * jobs / total)
        for begin, (state, jobs) in zip(begins, found, strict=False)
    ]


@dataclass
class StageBox:
    """The jobs of a tree in one stage, those that need attention first."""

    name: str
    jobs: list[TreeJob] = field(default_factory=list)

    @property
    def states(self) -> Mapping[str, int]:
        """The number of jobs in each state; no waiting joins."""
        counts: Counter[str] = Counter(job.state for job in self._shown)
        return {state: counts[state] for state in ORDER if counts[state]}

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
