"""Wait for jobs and show it: a live table on a terminal, else a line for each change."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from longhaul.cli.display.job import row_of, why_of
from longhaul.cli.errors import ExitStatus
from longhaul.cli.target import Target
from longhaul.cli.terminal.jobs import jobs_table
from longhaul.cli.terminal.output import STYLES, Output
from longhaul.domain.job_state import shown_state
from longhaul.domain.lease import Lease, State
from longhaul.operations.tree import progress
from longhaul.operations.view import as_json, job_record
from longhaul.operations.wait import Awaited, Standing, moved, unclaimed
from longhaul.trees import TreeJob

_MAX_ROWS = 15
_TREE_PERIOD_S = 2.0
# A look at a tree reads all its jobs, a hundred in a call.
_S_PER_JOB = 0.005


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
    seen: dict[str, Lease | None] = {}
    final: Mapping[str, Standing] = {}
    live = (
        Live(console=out.err, transient=True, refresh_per_second=4) if out.err.is_terminal else None
    )
    try:
        with live or nullcontext():
            for final in target.waiter.watch(awaited):
                if live is not None:
                    live.update(_picture(target, final))
                else:
                    _lines(out, final, seen)
            trees = [] if only else _await_trees(out, target, final, live)
    except KeyboardInterrupt:
        out.note(
            "no longer waiting; the jobs go on: `longhaul status` shows them, "
            "`longhaul cancel` stops them",
            style="yellow",
        )
        raise
    _tell(out, target, final)
    for tree in trees:
        _tell_tree(out, target, tree)
    ended_badly = {tree.key for tree in trees if not tree.has_succeeded}
    good = sum(each.succeeded and key not in ended_badly for key, each in final.items())
    is_well = good == len(final)
    out.note(
        f"{good} of {len(final)} succeeded{', with what followed' if trees else ''}",
        style="green" if is_well else "red",
    )
    if not is_well:
        raise typer.Exit(ExitStatus.FAILED)


def _await_trees(
    out: Output, target: Target, roots: Mapping[str, Standing], live: Live | None
) -> list[TreeJob]:
    """Wait until nothing goes on below the jobs; the trees of those that led to others."""
    rows = [each.lease for each in roots.values() if each.lease is not None and each.succeeded]
    ended: list[TreeJob] = []
    said: dict[str, str] = {}
    while True:
        trees = [target.trees.walk(row) for row in rows]
        ended += [tree for tree in trees if tree.has_ended and tree.children]
        words = {tree.key: f"{tree.job_id}: {progress(tree)}" for tree in trees if tree.children}
        if live is not None:
            live.update(Group(*map(Text, list(words.values())[:_MAX_ROWS])))
        else:
            for key, text in words.items():
                if said.get(key) != text:
                    out.note(text)
        said |= words
        rows = [tree.lease for tree in trees if tree.lease is not None and not tree.has_ended]
        if not rows:
            return ended
        jobs = sum(sum(states.total() for states in tree.counts().values()) for tree in trees)
        target.parts.clock.sleep(max(_TREE_PERIOD_S, _S_PER_JOB * jobs))


def _tell_tree(out: Output, target: Target, tree: TreeJob) -> None:
    """Report the outcome of what descends from a job: as JSON every job, else the bad ones."""
    now = target.parts.clock.now()
    for job in tree.all():
        if job.key == tree.key or job.lease is None:  # a join that waits for the dead
            continue
        if out.as_json:
            out.record(job_record(job.lease, target.settings, target.parts.executions, now))
        elif job.lease.state is not State.SUCCEEDED:
            out.note(f"{job.job_id}: {job.state}: {why_of(job.lease, now)}", style="red")
    style = "green" if tree.has_succeeded else "red"
    out.note(f"{tree.job_id}: {progress(tree)}", style=style)


def _picture(target: Target, standings: Mapping[str, Standing]) -> Group:
    counts: Counter[str] = Counter(
        shown_state(each.lease) if each.lease else unclaimed(each).state
        for each in standings.values()
    )
    head = Text("  ").join(
        Text(f"{counts[state]} {state}", style=STYLES[state]) for state in STYLES if counts[state]
    )
    going = [each.lease for each in standings.values() if each.lease is not None and not each.done][
        :_MAX_ROWS
    ]
    now = target.parts.clock.now()
    return Group(head, jobs_table(row_of(lease, now) for lease in going)) if going else Group(head)


def _lines(
    out: Output,
    standings: Mapping[str, Standing],
    seen: dict[str, Lease | None],
) -> None:
    for key, each in standings.items():
        if each.lease is not None and moved(seen.get(key), each.lease):
            seen[key] = each.lease
            error = each.lease.last_error
            why = f" ({each.lease.last_class}: {error})" if error else ""
            out.note(
                f"{each.lease.job_id}: {shown_state(each.lease)}, "
                f"attempt {each.lease.attempt.number}{why}"
            )


def _tell(out: Output, target: Target, standings: Mapping[str, Standing]) -> None:
    """Report the outcomes: as JSON all of them, else those that are no success."""
    for each in standings.values():
        lease = each.lease
        if lease is None:
            if each.done and out.as_json:
                out.record(as_json(unclaimed(each)))
            elif each.done:
                out.note(f"{each.key.partition('#')[2]}: CANCELLED before it ran", style="red")
        elif out.as_json:
            out.record(
                job_record(
                    lease, target.settings, target.parts.executions, target.parts.clock.now()
                )
            )
        elif each.conflict:
            out.note(
                f"{lease.job_id}: the id belongs to a different request: "
                "ours went to the dead-letter queue",
                style="red",
            )
        elif not each.succeeded:
            out.note(
                f"{lease.job_id}: {lease.state.value}: {lease.last_class}:"
                f" {lease.last_error or ''}",
                style="red",
            )
