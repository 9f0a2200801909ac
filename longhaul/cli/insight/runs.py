"""Jobs as runs: a root with all that descends from it, or a backfill with its jobs. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from longhaul.cli.insight.tree_graph import worst
from longhaul.domain.backfill import backfill_of
from longhaul.domain.job_state import QUEUED, shown_state
from longhaul.domain.lease import Lease, State
from longhaul.trees import WAITS, led_to


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
        return worst(state for states in self.stages.values() for state in states)

    @property
    def begun(self) -> datetime:
        return min(row.run_began for row in self.jobs)

    @property
    def ended_at(self) -> datetime | None:
        """None while a job of it goes on."""
        is_open = any(state not in _ENDED for states in self.stages.values() for state in states)
        return None if is_open else max(row.ended_at for row in self.jobs)


_ENDED: Final = {*(each.value for each in State if each.is_terminal), WAITS}
_UNWELL: Final = (State.DEAD.value, State.CANCELLED.value)


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
        states.setdefault(row.stage, Counter())[shown_state(row)] += 1
        if row.lineage is not None and row.lineage.parent in here:
            missing[row.stage] -= 1
        # Of a job that ran again alone, what it had led to stays as it is.
        leads, opens = led_to(row) if not row.only else ({}, ())
        missing.update(leads)
        missing.update(opens)
        joins.update(opens)
    is_well = not any(states[stage][each] for stage in states for each in _UNWELL)
    for stage, count in missing.items():
        if count > 0:
            # A join waits for what died. Else it is to come, as all that has no row yet.
            state = QUEUED if is_well or stage not in joins else WAITS
            states.setdefault(stage, Counter())[state] += count
    return {stage: states[stage] for stage in dict.fromkeys((*order, *states)) if stage in states}
