"""`longhaul status`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import (
    MANY,
    AsJson,
    LabelOption,
    NewerThan,
    OlderThan,
    Only,
    ShownState,
    StageOption,
    TagOption,
)
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.requests import pairs

if TYPE_CHECKING:
    from longhaul.cli.target import Target
    from longhaul.operations.look import Look
    from longhaul.operations.named import Work

_PERIOD_S = 2.0


@on_target
def status(
    target: "Target",
    *,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB", help="A job's id or label, or how one begins; without it, a list."
        ),
    ] = None,
    stage: StageOption = None,
    state: Annotated[
        list[ShownState] | None,
        typer.Option(
            "--state", case_sensitive=False, help="Only jobs in this state; may be repeated."
        ),
    ] = None,
    label: LabelOption = None,
    tags: TagOption = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    limit: Annotated[
        int,
        typer.Option(
            min=1,
            max=MANY,
            help="At most this many open jobs, ended jobs, and jobs of a fan-out.",
        ),
    ] = 20,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Watch the job until it ends, with its outcome as exit code."
        ),
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Every attempt of the job, and why it ended.")
    ] = False,
    only: Only = False,
    as_json: AsJson = False,
) -> None:
    """Show a job and its follow-ons, or the open jobs and those that ended last.

    Open jobs run, wait for their next attempt, or still owe something; ended ones follow, the
    latest first. A queued job has no row yet: the last lines count the queues. The age of a job is
    the time since its run began or ended. A job that runs again starts a new run, whose attempts
    continue the numbers of the last one.

    Of one job it also says what was asked for, by whom and when; between two attempts what it waits
    for, and until when at the latest; and what is stored for its next attempt
    (docs/checkpoints.md). With --history each of its attempts has a line; the last fifty are kept
    for 120 days.

    Example: longhaul status flights-2013-01

    Example: longhaul status flights-2013-01 --history

    Example: longhaul status --state dead --newer-than 1d --json

    Example: longhaul status --label '2026-10-*' --tag team=web
    """
    from longhaul.operations.find import Ages
    from longhaul.operations.look import Wanted, look

    out = Output(as_json=as_json)
    if job is None and (history or watch):
        raise CommandError("--history and --watch are of a job: name it", ExitStatus.USAGE)
    if job is None:
        states = [each.name for each in state or ShownState]
        ages = Ages(older_than, newer_than)
        wanted = Wanted(states, ages, label=label, tags=pairs("--tag", tags))
        _list(out, target, look(target, target.stages(stage), wanted, limit))
        return
    from longhaul.operations.named import find_work

    work = find_work(target, job, stage)
    if history:
        _history(out, target, work)
        return
    while watch and work.is_mark:  # the stage to which its message comes is not known
        target.parts.clock.sleep(_PERIOD_S)
        work = find_work(target, job, stage)
    _one(out, target, work, limit, watch=watch, only=only)


def _one(
    out: Output, target: "Target", work: "Work", limit: int, *, watch: bool, only: bool
) -> None:
    """Show a job, or a backfill, and what descends from it; watch it until all have ended."""
    from longhaul.cli.display.job import page_of
    from longhaul.cli.display.tree import TreeLines
    from longhaul.cli.terminal.outcomes import wait_for
    from longhaul.operations.find import asked_of
    from longhaul.operations.tree import not_started, progress, statuses, unwell
    from longhaul.operations.view import as_json

    tree, row = work.tree(target, only=only), work.row
    if watch and not (row and tree.has_ended):
        wait_for(out, target, work.awaited, only=only)
        return
    known, now = statuses(target, tree), target.parts.clock.now()
    asked = asked_of(row, target.parts.requests) if row else None
    if out.as_json:
        for key, each in known.items():
            out.record(as_json(each) | ({"request": asked} if row and key == row.key else {}))
    elif row:
        out.fields(page_of(known[row.key], now, asked))
        if problem := not_started(row, target.settings.stages):
            out.line("")
            out.line(problem)
    if not out.as_json and (tree.children or not row):
        if row:
            out.line("")
        # The root has succeeded, and is green.
        out.line(progress(tree), style="red" if unwell(tree) else "")
        out.line("")
        out.jobs(TreeLines(known, now, limit).rows_of(tree))
    if work.left:
        out.note(work.left)
    if watch and not tree.has_succeeded:
        raise typer.Exit(ExitStatus.FAILED)


def _list(out: Output, target: "Target", seen: "Look") -> None:
    from longhaul.cli.display.job import row_of
    from longhaul.operations.look import status_of
    from longhaul.operations.view import as_json

    shown = [status_of(target, row, seen.uses) for row in seen.jobs]
    if out.as_json:
        for each in shown:
            out.record(as_json(each))
    elif shown:
        out.jobs(row_of(each, seen.now) for each in shown)
    for line in _notes(seen):
        out.note(line)


def _notes(seen: "Look") -> Iterator[str]:
    from longhaul.cli.display.slots import letters_of, slots_of

    if seen.more:
        kinds = " and ".join(seen.more)
        yield f"there are more jobs that are {kinds}: raise --limit, or filter"
    if not seen.jobs:
        yield "no job matches"
    for each in seen.stages:
        letters = f", {letters_of(each)} (`longhaul dlq list`)" if each.dead_letters else ""
        slots = slots_of(each.slots, each.stage)
        yield f"{each.stage.name}: about {each.queued} queued, {slots}{letters}"


def _history(out: Output, target: "Target", work: "Work") -> None:
    from longhaul.cli.display.attempt import COLUMNS, row_of
    from longhaul.cli.display.job import ended_before
    from longhaul.operations.look import status_of
    from longhaul.operations.timeline import lanes_of
    from longhaul.operations.view import attempt_record

    row, now = work.found, target.parts.clock.now()
    (lane,), job = lanes_of(target, [row]), status_of(target, row)
    records = (attempt_record(each, target.parts.executions, now) for each in lane.attempts)
    out.listing(records, COLUMNS, [row_of(each, now) for each in lane.attempts])
    if not lane.attempts:
        ended = f"{ended_before(job)} before it began: it had no attempt"
        out.note("it has not begun" if job.was_accepted else ended)
        return
    if earlier := lane.attempts[0].attempt.number - 1:
        out.note(f"{earlier} earlier attempts are not remembered")
    waited, ran = lane.waited_s(now), lane.ran_s(now)
    out.note(f"{job.job_id}: {job.state}; waited {waited:.0f} s and ran {ran:.0f} s in all")
