"""The first page: counts of the stages, and all open and lately ended jobs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from multiprocessing.pool import ThreadPool
from operator import itemgetter
from typing import Final, NamedTuple

from longhaul.cli.page.ends import Ends
from longhaul.cli.target import Target
from longhaul.domain.lease import Lease, OpenKind, State
from longhaul.domain.waiting import Waits
from longhaul.operations.find import OPEN_KINDS, has_ended_at, moment_of
from longhaul.operations.stage_counts import StageCounts
from longhaul.settings import Stage

WINDOWS = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}
"""The choices of how long ago the ended jobs may have ended."""

MAX_JOBS: Final = 20_000
"""The most open jobs, and as many ended ones, of which the page knows; of a stage and in all."""

MAX_READ: Final = 2_000
"""The most rows that a look reads, a hundred in a call."""

_AT_ONCE = 8  # calls
_BATCH = 100  # rows


@dataclass(frozen=True)
class Board:
    """The jobs at one moment.

    Attributes:
        now: That moment.
        stages: The stages in numbers.
        jobs: Those whose rows are read: what runs, what is between attempts, then what ended, the
            latest first.
        unread: How many rows the next looks will read.
        more: There are more than `MAX_JOBS`.
        waits: What the jobs between attempts wait for.
    """

    now: datetime
    stages: Sequence[StageCounts]
    jobs: Sequence[Lease]
    unread: int
    more: bool
    waits: Waits

    @property
    def said(self) -> str:
        """The board as a sentence."""
        states = Counter(row.state for row in self.jobs)
        queued = sum(each.queued for each in self.stages)
        dead = sum(each.of_the_dead for each in self.stages)
        return (
            f"{states[State.RUNNING]} running, {states[State.RELEASED]} between attempts, "
            f"about {queued} queued, {dead} dead letters"
        )


class BoardReader:
    """Reads the board, and keeps the rows that cannot change any more.

    Where more jobs are open than a look can read, each look reads those that were read longest ago.
    """

    def __init__(self, target: Target, window: timedelta) -> None:
        self._target = target
        self._ends = {
            stage.name: Ends(target.jobs.index, stage.name, window, MAX_JOBS)
            for stage in target.settings.stages
        }
        self._rows: dict[str, Lease] = {}
        self._read_in: dict[str, int] = {}  # the number of the look, by the key of an open job
        self._looks = 0

    def read(self) -> Board:
        """Calls AWS: docs/operations.md has the calls."""
        target, now = self._target, self._target.parts.clock.now()
        # Not concurrent.futures, whose threads are no daemons: Ctrl-C would wait for AWS.
        with ThreadPool(_AT_ONCE) as pool:
            of_stages = pool.map(lambda stage: self._keys(stage, now), target.settings.stages)
            opened = {key: kind for each in of_stages for key, kind in each.open.items()}
            found = [end for each in of_stages for end in each.ends.items()]
            ends = dict(sorted(found, key=itemgetter(1), reverse=True)[:MAX_JOBS])
            wanted = self._wanted(opened, ends)
            batches = [wanted[n : n + _BATCH] for n in range(0, len(wanted), _BATCH)]
            loaded = pool.map(target.parts.leases.load_many, batches)
        self._keep(wanted, {key: row for rows in loaded for key, row in rows.items()}, opened, ends)
        jobs = self._jobs(opened, ends)
        unread_open = sum(not looked_in for looked_in in self._read_in.values())
        return Board(
            now=now,
            stages=[each.counts for each in of_stages],
            jobs=jobs,
            unread=unread_open + sum(key not in self._rows for key in ends),
            more=any(each.more for each in of_stages) or len(found) > MAX_JOBS,
            waits=Waits(
                now,
                target.settings.lease,
                {each.counts.stage.name: each.counts.slots for each in of_stages},
                None if unread_open else jobs,
            ),
        )

    def _keys(self, stage: Stage, now: datetime) -> "_OfStage":
        opened: dict[str, OpenKind] = {}
        more = False
        for kind in OPEN_KINDS:
            keys = list(islice(self._target.jobs.index.open_keys(stage.name, kind), MAX_JOBS + 1))
            opened |= dict.fromkeys(keys[:MAX_JOBS], kind)
            more = more or len(keys) > MAX_JOBS
        ends = self._ends[stage.name].read(now).items()
        ended = {key: at for key, at in ends if key not in opened}
        counts = self._target.stage_counter.count(stage, len(opened))
        return _OfStage(counts, opened, ended, more)

    def _wanted(self, opened: Iterable[str], ends: Mapping[str, datetime]) -> list[str]:
        """The keys of the rows to read: the open ones, then the ends that are not known."""
        oldest = sorted(opened, key=lambda key: self._read_in.get(key, 0))
        unknown = [key for key, at in ends.items() if not self._knows(key, at)]
        open_ones = oldest[: max(MAX_READ // 2, MAX_READ - len(unknown))]
        return [*open_ones, *unknown[: MAX_READ - len(open_ones)]]

    def _keep(
        self,
        wanted: Iterable[str],
        read: Mapping[str, Lease],
        opened: Mapping[str, OpenKind],
        ends: Mapping[str, datetime],
    ) -> None:
        """Keep what was read, of the jobs that are still there."""
        self._looks += 1
        keys, here = set(wanted), {*opened, *ends}
        self._rows = {key: row for key, row in {**self._rows, **read}.items() if key in here}
        for key, at in ends.items():
            if key in keys and not self._knows(key, at):
                self._ends[key.partition("#")[0]].forget(key)
        self._read_in = {
            key: self._looks if key in keys else self._read_in.get(key, 0) for key in opened
        }

    def _knows(self, key: str, at: datetime) -> bool:
        row = self._rows.get(key)
        return row is not None and has_ended_at(row, at)

    def _jobs(self, opened: Mapping[str, OpenKind], ends: Mapping[str, datetime]) -> list[Lease]:
        # The index lags a little; the row is the truth.
        rows = [
            row
            for key, kind in opened.items()
            if (row := self._rows.get(key)) is not None and row.open_kind == kind
        ]
        begun = sorted(
            (row for row in rows if not row.state.is_terminal),
            key=lambda row: (row.state is not State.RUNNING, row.run, row.key),
        )
        ended = [self._rows[key] for key, at in ends.items() if self._knows(key, at)]
        ended += [row for row in rows if row.state.is_terminal]
        return [*begun, *sorted(ended, key=moment_of, reverse=True)]


class _OfStage(NamedTuple):
    counts: StageCounts
    open: Mapping[str, OpenKind]
    ends: Mapping[str, datetime]
    more: bool
