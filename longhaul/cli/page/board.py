"""The first page: counts of the stages, open and ended jobs, and all of them as lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from multiprocessing.pool import ThreadPool
from typing import NamedTuple

from longhaul.cli.insight.timeline import Lane, lane
from longhaul.cli.page.histories import Histories
from longhaul.cli.target import Target
from longhaul.domain.lease import Lease, State
from longhaul.domain.waiting import Waits
from longhaul.operations.find import Ages, moment_of
from longhaul.operations.stage_counts import StageCounts
from longhaul.settings import Stage

WINDOWS = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}
"""The choices of how long ago the ended jobs may have ended."""

MAX_JOBS = 500
"""The most jobs that are shown, open ones first."""


_AT_ONCE = 8  # stages that are read at the same time


@dataclass(frozen=True)
class Board:
    """The page at one moment. `more`: there are more jobs than are shown."""

    now: datetime
    stages: Sequence[StageCounts]
    running: Sequence[Lease]
    waiting: Sequence[Lease]
    ended: Sequence[Lease]
    lanes: Sequence[Lane]
    more: bool
    waits: Waits

    @property
    def said(self) -> str:
        """The board as a sentence."""
        queued, dead = (
            sum(each.queued for each in self.stages),
            sum(each.dead_letters for each in self.stages),
        )
        return (
            f"{len(self.running)} running, {len(self.waiting)} between attempts, "
            f"about {queued} queued, {dead} dead letters"
        )


class BoardReader:
    """Reads the board, and keeps rows and attempts that cannot change any more."""

    def __init__(self, target: Target, window: timedelta) -> None:
        self._target, self._window = target, window
        self._histories = Histories(target.parts.leases)
        self._finished: dict[str, Lease] = {}

    def read(self) -> Board:
        """Calls AWS: docs/console.md has the calls."""
        target = self._target
        now = target.parts.clock.now()
        # Not concurrent.futures, whose threads are no daemons: Ctrl-C would wait for AWS.
        with ThreadPool(min(_AT_ONCE, len(target.settings.stages))) as pool:
            of_stages = pool.map(self._read_stage, target.settings.stages)
        unfinished = sorted(
            (row for each in of_stages for row in each.unfinished),
            key=lambda row: (row.state.is_terminal, row.run, row.key),
        )
        ended = sorted(
            (row for each in of_stages for row in each.ended), key=moment_of, reverse=True
        )
        rows = [*unfinished, *ended]
        shown = rows[:MAX_JOBS]
        self._finished = {row.key: row for row in ended}
        attempts = self._histories.of(shown)
        return Board(
            now=now,
            stages=[each.counts for each in of_stages],
            running=[row for row in shown if row.state is State.RUNNING],
            waiting=[row for row in shown if row.state is State.RELEASED],
            ended=[row for row in shown if row.state.is_terminal],
            lanes=[lane(row, attempts.get(row.key, ())) for row in shown],
            more=len(rows) > MAX_JOBS,
            waits=Waits(
                now,
                target.settings.lease,
                {each.counts.stage.name: each.counts.slots for each in of_stages},
                unfinished,
            ),
        )

    def _read_stage(self, stage: Stage) -> "_OfStage":
        jobs, known = self._target.jobs, self._finished
        finished = jobs.ended([stage.name], tuple(State), Ages(newer_than=self._window), known)
        unfinished = jobs.unfinished([stage.name])
        return _OfStage(
            self._target.stage_counter.count(stage, unfinished),
            unfinished[: MAX_JOBS + 1],
            list(islice(finished, MAX_JOBS + 1)),
        )


class _OfStage(NamedTuple):
    counts: StageCounts
    unfinished: Sequence[Lease]
    ended: Sequence[Lease]
