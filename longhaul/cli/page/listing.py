"""A page of the jobs that a filter lets through, with the attempts that its timeline draws."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Final, Literal

from longhaul.cli.insight.timeline import Lane, lane
from longhaul.cli.page.board import Board
from longhaul.cli.page.filters import Filter
from longhaul.cli.page.histories import Histories
from longhaul.domain.backfill import backfill_of
from longhaul.domain.lease import Lease, State
from longhaul.ports import Leases

PER_PAGE: Final = 200
"""Jobs of a page: what a browser holds, and what it is sent every two seconds."""

MAX_BACKFILLS: Final = 20
"""The most backfills that a page names."""

Table = Literal["running", "waiting", "ended"]


@dataclass(frozen=True)
class Part:
    """What a page has of a table: some rows of `total`, which begin on the page `begins_on`."""

    rows: Sequence[Lease]
    total: int
    begins_on: int


@dataclass(frozen=True)
class Listing:
    """Page `page` of `pages`, from 1: the jobs from `first` to `last` of `total`.

    `backfills`: the keys of those that sent some of all these jobs, `MAX_BACKFILLS` at most.
    `dead`: the keys of the roots of whose runs a job is dead.
    """

    board: Board
    page: int
    pages: int
    first: int
    last: int
    total: int
    parts: Mapping[Table, Part]
    backfills: Sequence[str]
    dead: Collection[str]
    lanes: Sequence[Lane]


class ListingReader:
    """Reads one page of one filter; `look` returns the board."""

    def __init__(
        self,
        look: Callable[[], Board | None],
        leases: Leases,
        wanted: Filter,
        page: int,
        per_page: int = PER_PAGE,
    ) -> None:
        self._look, self._wanted, self._page, self._per_page = look, wanted, page, per_page
        self._histories = Histories(leases)

    def read(self) -> Listing | None:
        """Calls AWS for attempts that are not known. None: nothing is known yet."""
        board = self._look()
        if board is None:
            return None
        rows = self._wanted.choose(board.jobs) if self._wanted else board.jobs
        pages = max(1, ceil(len(rows) / self._per_page))
        page = min(self._page, pages)
        begin = (page - 1) * self._per_page
        shown = rows[begin : begin + self._per_page]
        attempts = self._histories.of(shown)
        return Listing(
            board=board,
            page=page,
            pages=pages,
            first=min(begin + 1, len(rows)),
            last=begin + len(shown),
            total=len(rows),
            parts=_parts(rows, shown, self._per_page),
            backfills=[*islice(_backfills(rows), MAX_BACKFILLS)],
            dead={row.root for row in board.jobs if row.state is State.DEAD},
            lanes=[lane(row, attempts.get(row.key, ())) for row in shown],
        )


def _backfills(rows: Iterable[Lease]) -> Iterable[str]:
    return dict.fromkeys(key for row in rows if (key := backfill_of(row)) is not None)


def _parts(rows: Sequence[Lease], shown: Sequence[Lease], per_page: int) -> dict[Table, Part]:
    parts: dict[Table, Part] = {}
    before = 0
    for name in ("running", "waiting", "ended"):
        total = sum(_table(row) == name for row in rows)
        mine = [row for row in shown if _table(row) == name]
        parts[name] = Part(mine, total, before // per_page + 1)
        before += total
    return parts


def _table(row: Lease) -> Table:
    if row.state.is_terminal:
        return "ended"
    return "running" if row.state is State.RUNNING else "waiting"
