"""The first page: the stages, and the runs and jobs that a filter lets through."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from math import ceil
from typing import Any, Final

from longhaul.cli.page.filters import Filter
from longhaul.cli.target import Target
from longhaul.operations.look import Look, Wanted, look, status_of
from longhaul.operations.runs import Run, run_of, runs
from longhaul.operations.timeline import Lane, lanes_of, together

WINDOWS: Final[Mapping[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}
"""The choices of how long ago the ended jobs may have ended."""

MAX_JOBS: Final = 5_000
"""The most open jobs, and as many ended ones, of which the page knows."""

PER_PAGE: Final = 100
"""Runs of a page, and jobs: what a browser holds, and what it is sent every two seconds."""


class BoardReader:
    """Looks at the jobs, and keeps the rows that cannot change any more."""

    def __init__(self, target: Target, window: timedelta) -> None:
        self._target = target
        self._wanted = Wanted(ended_within=window)
        self._seen: Look | None = None

    def read(self) -> Look:
        """Calls AWS: docs/operations.md has the calls."""
        known = {row.key: row for row in self._seen.ended} if self._seen else {}
        stages = self._target.settings.stages
        self._seen = look(self._target, stages, self._wanted, MAX_JOBS, known)
        return self._seen


def listing(
    target: Target, board: Look, wanted: Filter, page: int, per_page: int = PER_PAGE
) -> Mapping[str, Any]:
    """One page of one filter. Calls AWS for the attempts of jobs that were tried again.

    Returns what the template shows: `page` of `pages`, from 1, of which the last ones may have no
    `runs`; the rows of its `jobs`, of which the first is number `first` of all, with how they
    stand; in `dead` the keys of the roots of whose runs a job is dead; and the `lanes` of its runs.
    """
    rows = board.choose(wanted.wanted)
    chosen = {run_of(row) for row in rows}
    stages = [each.stage.name for each in board.stages]
    found = [run for run in runs(board.jobs, stages) if run.key in chosen]
    pages = max(1, ceil(len(rows) / per_page))
    page = min(page, pages)
    first = (page - 1) * per_page
    shown, jobs = found[first : first + per_page], rows[first : first + per_page]
    return {
        "board": board,
        "said": _said(board),
        "page": page,
        "pages": pages,
        "runs": shown,
        "all_runs": len(found),
        "jobs": [(row, status_of(target, row, board.uses)) for row in jobs],
        "all_jobs": len(rows),
        "first": first + 1,
        "dead": {row.root for row in board.jobs if row.state == "DEAD"},
        "lanes": list(_lanes(target, shown)),
    }


def _said(board: Look) -> str:
    """The board as a sentence."""
    states = Counter(row.state.value for row in board.open)
    queued = sum(each.queued for each in board.stages)
    dead = sum(each.of_the_dead for each in board.stages)
    return (
        f"{states['RUNNING']} running, {states['RELEASED']} between attempts, "
        f"about {queued} queued, {dead} dead letters"
    )


def _lanes(target: Target, shown: Sequence[Run]) -> Iterator[Lane]:
    """A lane for each stage of a run."""
    found: dict[tuple[str, str], list[Lane]] = {}
    for each in lanes_of(target, [row for run in shown for row in run.jobs]):
        found.setdefault((run_of(each.row), each.row.stage), []).append(each)
    for run in shown:
        lanes = {stage: found[run.key, stage] for stage in run.stages if (run.key, stage) in found}
        for stage, parts in lanes.items():
            yield together(parts, run.name if len(lanes) == 1 else f"{run.name}/{stage}")
