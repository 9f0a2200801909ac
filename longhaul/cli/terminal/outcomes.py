"""Wait for jobs and show it: live lines on a terminal, else a line for each change."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from longhaul.cli.display.job import error_of, progress_of
from longhaul.cli.display.text import printable
from longhaul.cli.errors import ExitStatus
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.operations.look import status_in
from longhaul.operations.tree import TreeJob, progress, statuses
from longhaul.operations.view import JobStatus, as_json
from longhaul.operations.wait import Awaited, Standing

_MAX_LINES = 15
_TREE_PERIOD_S = 2.0
# A look at a tree reads all its jobs, a hundred in a call.
_S_PER_JOB = 0.005

Tell = Callable[[Mapping[str, str]], None]
"""Shows the latest line of each thing, by its key."""


def wait_for(
    out: Output,
    target: Target,
    awaited: Sequence[Awaited],
    *,
    only: bool = False,
) -> None:
    """Show the jobs until each has its outcome, and so has all that descends from it.

    Args:
        out: where to.
        target: where the jobs are.
        awaited: the jobs.
        only: whether the jobs alone are waited for.

    Raises:
        typer.Exit: with 1 if a job did not succeed.
    """
    final: Mapping[str, Standing] = {}
    try:
        with _telling(out) as tell:
            for final in target.waiter.watch(awaited):
                tell(_lines(target, final, live=out.err.is_terminal))
            trees = [] if only else _await_trees(target, final, tell)
    except KeyboardInterrupt:
        out.note(
            "no longer waiting; the jobs go on: `longhaul status` shows them, "
            "`longhaul cancel` stops them",
            style="yellow",
        )
        raise
    for each in final.values():
        if each.conflict and not out.as_json:
            job_id = each.key.partition("#")[2]
            why = "the id belongs to a different request: ours went to the dead-letter queue"
            out.note(f"{job_id}: {why}", style="red")
        else:
            _tell(out, status_in(target, each))
    for tree in trees:
        for key, job in statuses(target, tree).items():
            if key != tree.key and job.was_accepted:
                _tell(out, job)
        style = "green" if tree.has_succeeded else "red"
        out.note(f"{tree.job_id}: {progress(tree)}", style=style)
    ended_badly = {tree.key for tree in trees if not tree.has_succeeded}
    good = sum(each.succeeded and key not in ended_badly for key, each in final.items())
    is_well = good == len(final)
    out.note(
        f"{good} of {len(final)} succeeded{', with what followed' if trees else ''}",
        style="green" if is_well else "red",
    )
    if not is_well:
        raise typer.Exit(ExitStatus.FAILED)


@contextmanager
def _telling(out: Output) -> Iterator[Tell]:
    if out.err.is_terminal:
        with Live(console=out.err, transient=True, refresh_per_second=4) as live:
            yield lambda lines: live.update(
                Group(*(Text(printable(each)) for each in [*lines.values()][:_MAX_LINES]))
            )
        return
    said: dict[str, str] = {}

    def tell(lines: Mapping[str, str]) -> None:
        for key, line in lines.items():
            if said.get(key) != line:
                out.note(line)
        said.update(lines)

    yield tell


def _lines(target: Target, standings: Mapping[str, Standing], *, live: bool) -> Mapping[str, str]:
    """A line for each job that is known; live for those that go on, below the numbers of all."""
    known = {key: status_in(target, each) for key, each in standings.items()}
    states = Counter(job.state for job in known.values())
    lines = {"": ", ".join(f"{count} {state}" for state, count in states.items())} if live else {}
    for key, job in known.items():
        if job.was_accepted and not (live and standings[key].done):
            error = error_of(job)
            why = f" ({error})" if error else ""
            moves = f" {progress_of(job)}" if live else ""
            lines[key] = f"{job.job_id}: {job.state}, attempt {job.attempt}{why}{moves}"
    return lines


def _await_trees(target: Target, roots: Mapping[str, Standing], tell: Tell) -> list[TreeJob]:
    """Wait until nothing goes on below the jobs; the trees of those that led to others."""
    rows = [each.lease for each in roots.values() if each.lease is not None and each.succeeded]
    ended: list[TreeJob] = []
    while True:
        trees = [target.trees.walk(row) for row in rows]
        ended += [tree for tree in trees if tree.has_ended and tree.children]
        tell({tree.key: f"{tree.job_id}: {progress(tree)}" for tree in trees if tree.children})
        rows = [tree.lease for tree in trees if tree.lease is not None and not tree.has_ended]
        if not rows:
            return ended
        jobs = sum(1 for tree in trees for _ in tree.all())
        target.parts.clock.sleep(max(_TREE_PERIOD_S, _S_PER_JOB * jobs))


def _tell(out: Output, job: JobStatus) -> None:
    """Report an outcome: as JSON each, else those that are no success."""
    if out.as_json:
        out.record(as_json(job))
    elif job.state != "SUCCEEDED":
        error = error_of(job)
        why = f": {error}" if error else " before it ran"
        out.note(f"{job.job_id}: {job.state}{why}", style="red")
