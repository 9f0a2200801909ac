"""A page of the runs and jobs that a filter lets through, with the lanes of its timeline."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, TypeVar

from longhaul.cli.insight.runs import Run, run_of, runs
from longhaul.cli.insight.timeline import Lane, lane, together
from longhaul.cli.page.board import Board
from longhaul.cli.page.filters import Filter
from longhaul.domain.history import AttemptRecord, latest
from longhaul.domain.lease import Lease, State
from longhaul.ports import Leases

T = TypeVar("T")

PER_PAGE: Final = 100
"""Runs of a page, and jobs: what a browser holds, and what it is sent every two seconds."""


@dataclass(frozen=True)
class Listing:
    """Page `page` of `pages`, from 1.

    Attributes:
        board: What it is a part of.
        page: Its number.
        pages: How many there are; the last ones may have no runs.
        runs: Its runs.
        all_runs: How many runs there are on all pages.
        jobs: Its jobs, of which the first is number `first` of all.
        all_jobs: How many jobs there are on all pages.
        first: See `jobs`.
        dead: The keys of the roots of whose runs a job is dead.
        lanes: The timeline of its runs.
    """

    board: Board
    page: int
    pages: int
    runs: Sequence[Run]
    all_runs: int
    jobs: Sequence[Lease]
    all_jobs: int
    first: int
    dead: Collection[str]
    lanes: Sequence[Lane]


def listing(
    board: Board, wanted: Filter, page: int, leases: Leases, per_page: int = PER_PAGE
) -> Listing:
    """One page of one filter. Calls AWS for the attempts of jobs that were tried again."""
    rows = wanted.choose(board.jobs)
    chosen = {run_of(row) for row in rows}
    stages = [each.stage.name for each in board.stages]
    found = [run for run in runs(board.jobs, stages) if run.key in chosen]
    pages = max(1, ceil(len(rows) / per_page))
    page = min(page, pages)
    shown = _part(found, page, per_page)
    # Of most jobs the row has the only attempt.
    retried = [row for run in shown for row in run.jobs if row.attempt.number > 1]
    attempts = leases.history(retried[:per_page])
    return Listing(
        board=board,
        page=page,
        pages=pages,
        runs=shown,
        all_runs=len(found),
        jobs=_part(rows, page, per_page),
        all_jobs=len(rows),
        first=(page - 1) * per_page + 1,
        dead={row.root for row in board.jobs if row.state is State.DEAD},
        lanes=[each for run in shown for each in _lanes(run, attempts)],
    )


def _part(all_of_them: Sequence[T], page: int, size: int) -> Sequence[T]:
    return all_of_them[(page - 1) * size : page * size]


def _lanes(run: Run, known: Mapping[str, Sequence[AttemptRecord]]) -> Iterator[Lane]:
    """A lane for each stage."""
    of: dict[str, list[Lane]] = {stage: [] for stage in run.stages}
    for row in run.jobs:
        alone = [latest(row)] if row.is_begun else []
        of[row.stage].append(lane(row, known.get(row.key, alone)))
    lanes = {stage: each for stage, each in of.items() if each}
    for stage, each in lanes.items():
        yield together(each, run.name if len(lanes) == 1 else f"{run.name}/{stage}")
