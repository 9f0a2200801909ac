"""What the first page shows: the stages in figures, what runs, what waits, what ended lately, and all of it as lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from console.figures import Figures, figures
from console.page.histories import Histories
from console.target import Target
from longhaul.domain.lease import Lease, State
from longhaul.domain.timeline import Lane, lane
from longhaul.jobs import Ages

WINDOWS = {"1h": timedelta(hours=1), "6h": timedelta(hours=6), "1d": timedelta(days=1), "7d": timedelta(days=7)}
"""How far back the jobs go that have ended."""

MAX_JOBS = 500
"""So many are shown of those that are open, and so many in all."""


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
        queued, dead = (sum(getattr(each, name) for each in self.stages) for name in ("queued", "dead_letters"))
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
        names = [each.name for each in target.settings.stages]
        stages = [figures(target, self._sqs, each) for each in target.settings.stages]
        unfinished = list(islice(target.jobs.unfinished(names, tuple(State), Ages()), MAX_JOBS + 1))
        finished = target.jobs.ended(names, tuple(State), Ages(newer_than=self._window), self._finished)
        rows = [*unfinished, *islice(finished, max(0, MAX_JOBS + 1 - len(unfinished)))]
        shown = rows[:MAX_JOBS]
        self._finished = {row.key: row for row in shown if row.is_finished}
        attempts = self._histories.of(shown)
        return Board(
            now=now,
            stages=stages,
            running=[row for row in shown if row.state is State.RUNNING],
            waiting=[row for row in shown if row.state is State.RELEASED],
            ended=[row for row in shown if row.state.is_terminal],
            lanes=[lane(row, attempts.get(row.key, ())) for row in shown],
            more=len(rows) > MAX_JOBS,
        )
