"""What the first page shows: the stages in figures, what runs, what waits, what ended lately, and all of it as lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from multiprocessing.pool import ThreadPool
from typing import NamedTuple

from console.figures import Figures, figures
from console.page.histories import Histories
from console.target import Target
from longhaul.domain.lease import Lease, State
from longhaul.domain.timeline import Lane, lane
from longhaul.jobs import Ages, moment_of
from longhaul.settings import Stage

WINDOWS = {"1h": timedelta(hours=1), "6h": timedelta(hours=6), "1d": timedelta(days=1), "7d": timedelta(days=7)}
"""How far back the jobs go that have ended."""

MAX_JOBS = 500
"""So many are shown of those that are open, and so many in all."""


_AT_ONCE = 8  # stages that are asked about at the same time


@dataclass(frozen=True)
class Board:
    """A moment. `more`: there are more open jobs, or more that ended within the window."""

    now: datetime
    stages: Sequence[Figures]
    running: Sequence[Lease]
    waiting: Sequence[Lease]
    ended: Sequence[Lease]
    lanes: Sequence[Lane]
    more: bool

    @property
    def said(self) -> str:
        """In a sentence."""
        queued, dead = sum(each.queued for each in self.stages), sum(each.dead_letters for each in self.stages)
        return f"{len(self.running)} running, {len(self.waiting)} between attempts, about {queued} queued, {dead} dead letters"


class BoardReader:
    """Remembers what cannot change between two looks."""

    def __init__(self, target: Target, window: timedelta) -> None:
        self._target, self._window = target, window
        self._sqs = target.client("sqs")
        self._histories = Histories(target.parts.leases)
        self._finished: dict[str, Lease] = {}

    def read(self) -> Board:
        """Asks AWS: docs/console.md says what."""
        target = self._target
        now = target.parts.clock.now()
        # Its threads are daemons, which those of concurrent.futures are not: Ctrl-C does not wait for AWS.
        with ThreadPool(min(_AT_ONCE, len(target.settings.stages))) as pool:
            of_stages = pool.map(self._read_stage, target.settings.stages)
        unfinished = sorted(
            (row for each in of_stages for row in each.unfinished),
            key=lambda row: (row.state.is_terminal, row.run, row.key),
        )
        ended = sorted((row for each in of_stages for row in each.ended), key=moment_of, reverse=True)
        rows = [*unfinished, *ended]
        shown = rows[:MAX_JOBS]
        self._finished = {row.key: row for row in ended}
        attempts = self._histories.of(shown)
        return Board(
            now=now,
            stages=[each.figures for each in of_stages],
            running=[row for row in shown if row.state is State.RUNNING],
            waiting=[row for row in shown if row.state is State.RELEASED],
            ended=[row for row in shown if row.state.is_terminal],
            lanes=[lane(row, attempts.get(row.key, ())) for row in shown],
            more=len(rows) > MAX_JOBS,
        )

    def _read_stage(self, stage: Stage) -> "_OfStage":
        jobs, known = self._target.jobs, self._finished
        finished = jobs.ended([stage.name], tuple(State), Ages(newer_than=self._window), known)
        unfinished = jobs.unfinished([stage.name])
        return _OfStage(
            figures(self._target, self._sqs, stage, unfinished),
            unfinished[: MAX_JOBS + 1],
            list(islice(finished, MAX_JOBS + 1)),
        )


class _OfStage(NamedTuple):
    figures: Figures
    unfinished: Sequence[Lease]
    ended: Sequence[Lease]
