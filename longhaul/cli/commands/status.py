"""`longhaul status`."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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

if TYPE_CHECKING:
    from longhaul.cli.target import Target
    from longhaul.domain.backfill import Backfill
    from longhaul.domain.history import AttemptRecord
    from longhaul.domain.labels import Names
    from longhaul.domain.lease import Lease
    from longhaul.domain.waiting import Wait, Waits
    from longhaul.operations.find import Ages
    from longhaul.operations.stage_counts import StageCounts
    from longhaul.settings import Stage
    from longhaul.trees import TreeJob


_PERIOD_S = 2.0

MAX_SEARCHED = 10_000
"""Ended jobs that a search for a label or tags looks at, the latest first: 100 calls."""


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
            "--watch",
            "-w",
            help="Keep watching; a single job until it ends, with its outcome as exit code.",
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
    from longhaul.cli.terminal.selection import find_job, find_work, names_wanted
    from longhaul.domain.backfill import Backfill
    from longhaul.operations.find import Ages

    out = Output(as_json=as_json)
    if history:
        if job is None:
            raise CommandError("--history is of a job: name it", ExitStatus.USAGE)
        _history(out, target, find_job(target, job, stage))
        return
    if job is not None:
        lease = find_work(target, job, stage)
        if isinstance(lease, Backfill):
            _backfill(out, target, lease, limit, watch=watch, only=only)
            return
        while watch and lease.is_open_mark:  # the stage to which its message comes is not known
            target.parts.clock.sleep(_PERIOD_S)
            lease = find_job(target, job, stage)
        _one(out, target, lease, limit, watch=watch, only=only)
        return
    which = _Which(
        stages=target.stages(stage),
        states=tuple(each.name for each in state or ShownState),
        ages=Ages(older_than, newer_than),
        names=names_wanted(label, tags),
        limit=limit,
    )
    if watch and not as_json and out.data.is_terminal:
        _watch(out, target, which)
        return
    while True:
        _print(out, target, _look(target, which), limit)
        if not watch:
            return
        time.sleep(_PERIOD_S)


def _one(
    out: Output, target: "Target", lease: "Lease", limit: int, *, watch: bool, only: bool
) -> None:
    from longhaul.cli.display.job import page_of
    from longhaul.cli.display.tree import rows_of
    from longhaul.cli.terminal.jobs import show_jobs
    from longhaul.cli.terminal.outcomes import wait_for
    from longhaul.operations.asked import request_of
    from longhaul.operations.stage_waits import waits_in, waits_of_queued
    from longhaul.operations.tree import not_started, progress, unwell
    from longhaul.operations.view import request_record
    from longhaul.operations.wait import Awaited
    from longhaul.trees import TreeJob

    tree = TreeJob(lease.key, lease) if only else target.trees.walk(lease)
    if watch and not tree.has_ended:
        wait_for(out, target, [Awaited(lease.key, lease.fingerprint, None)], only=only)
        return
    now = target.parts.clock.now()
    waits = waits_in(target, lease, now)
    queued = waits_of_queued(target, tree)
    asked = request_of(lease, target.parts.requests)
    if out.as_json:
        for record in _records(target, tree, queued, waits):
            if (record["stage"], record["job_id"]) == (lease.stage, lease.job_id):
                record["request"] = request_record(asked) if asked else None
            out.record(record)
    else:
        group = target.settings.job_log_group
        out.fields(page_of(lease, now, target.parts.executions, group, asked, waits))
        if problem := not_started(lease, target.settings.stages):
            out.line("")
            out.line(problem)
        if tree.children:
            out.line("")
            # Its root has succeeded, and is green.
            out.line(progress(tree), style="red" if unwell(tree) else "")
            out.line("")
            show_jobs(out, rows_of(tree, now, limit, queued))
    if watch and not tree.has_succeeded:
        raise typer.Exit(ExitStatus.FAILED)


def _records(
    target: "Target", tree: "TreeJob", queued: "Mapping[str, Wait]", waits: "Waits | None" = None
) -> Iterator[dict[str, Any]]:
    """The jobs of a tree as JSON has them, without the joins that wait."""
    from longhaul.operations.tree import status_without_row
    from longhaul.operations.view import as_json, job_record
    from longhaul.trees import WAITS

    now = target.parts.clock.now()
    for job in tree.all():
        if job.lease is not None:
            yield job_record(job.lease, target.settings, target.parts.executions, now, waits)
        elif job.state != WAITS:
            yield as_json(status_without_row(job, tree.root_id, queued.get(job.stage)))


def _backfill(
    out: Output, target: "Target", backfill: "Backfill", limit: int, *, watch: bool, only: bool
) -> None:
    """Show a backfill's jobs and what descends from them; watch them until all have ended."""
    from longhaul.cli.display.tree import rows_of
    from longhaul.cli.terminal.jobs import show_jobs
    from longhaul.cli.terminal.outcomes import wait_for
    from longhaul.operations.stage_waits import waits_of_queued
    from longhaul.operations.tree import progress
    from longhaul.operations.wait import Awaited

    if watch:
        awaited = [Awaited(key, None, None) for key in backfill.job_keys()]
        wait_for(out, target, awaited, only=only)
        return
    tree = target.trees.walk_backfill(backfill)
    queued = waits_of_queued(target, tree)
    if out.as_json:
        for record in _records(target, tree, queued):
            out.record(record)
    else:
        for line in (progress(tree), ""):
            out.line(line)
        show_jobs(out, rows_of(tree, target.parts.clock.now(), limit, queued))
    if backfill.is_sending:
        out.note(f"{backfill.unsent:,} more were still to be sent: start its command again")
    elif backfill.unsent:
        out.note(f"{backfill.unsent:,} more were not sent: it was cancelled")


@dataclass(frozen=True)
class _Which:
    """The jobs of a list."""

    stages: "Sequence[Stage]"
    states: Sequence[str]
    ages: "Ages"
    names: "Names"
    limit: int


class _Seen(NamedTuple):
    """`open` and `ended` have one row more than the limit if there are more.

    `is_cut`: the search for names has ended before all ended jobs were looked at.
    """

    now: datetime
    open: "Sequence[Lease]"
    ended: "Sequence[Lease]"
    stages: "Sequence[StageCounts]"
    is_cut: bool
    waits: "Waits"

    def shown(self, limit: int) -> "list[Lease]":
        return [*self.open[:limit], *self.ended[:limit]]


def _look(target: "Target", which: _Which) -> _Seen:
    from longhaul.domain.job_state import shown_state
    from longhaul.domain.lease import State
    from longhaul.domain.waiting import Waits

    stages, now = [each.name for each in which.stages], target.parts.clock.now()
    unfinished = target.jobs.unfinished(stages)
    most = which.limit + 1
    rows_are = [each for each in State if each.value in which.states]
    ended = target.jobs.ended(stages, rows_are, which.ages)
    looked_at = 0
    if which.names:
        found: list[Lease] = []
        for row in islice(ended, MAX_SEARCHED):
            looked_at += 1
            if which.names.include(row):
                found.append(row)
                if len(found) == most:
                    break
    else:
        found = list(islice(ended, most))
    begun = Counter(row.stage for row in unfinished)
    counts = [target.stage_counter.count(stage, begun[stage.name]) for stage in which.stages]
    return _Seen(
        now=now,
        open=[
            row
            for row in unfinished
            if shown_state(row) in which.states
            and which.ages.include(row, now)
            and which.names.include(row)
        ][:most],
        ended=found,
        stages=counts,
        is_cut=looked_at == MAX_SEARCHED and len(found) < most,
        waits=Waits(
            now,
            target.settings.lease,
            {each.stage.name: each.slots for each in counts},
            unfinished,
        ),
    )


def _print(out: Output, target: "Target", seen: _Seen, limit: int) -> None:
    from longhaul.cli.display.job import row_of
    from longhaul.cli.terminal.jobs import show_jobs
    from longhaul.operations.view import job_record

    shown = seen.shown(limit)
    if out.as_json:
        for lease in shown:
            executions = target.parts.executions
            out.record(job_record(lease, target.settings, executions, seen.now, seen.waits))
    elif shown:
        show_jobs(out, (row_of(lease, seen.now, seen.waits) for lease in shown))
    for line in _notes(seen, limit):
        out.note(line)


def _notes(seen: _Seen, limit: int) -> Iterator[str]:
    from longhaul.cli.display.slots import letters_of, slots_of

    more = [
        name for name, rows in (("open", seen.open), ("ended", seen.ended)) if len(rows) > limit
    ]
    if more:
        yield f"there are more jobs that are {' and '.join(more)}: raise --limit, or filter"
    if seen.is_cut:
        yield (
            f"looked at the {MAX_SEARCHED:,} jobs that ended last: narrow it with --newer-than,"
            " --older-than, --stage or --state"
        )
    if not seen.open and not seen.ended:
        yield "no job matches"
    for each in seen.stages:
        slots = slots_of(each.slots, each.stage)
        letters = f", {letters_of(each)} (`longhaul dlq list`)" if each.dead_letters else ""
        yield f"{each.stage.name}: about {each.queued} queued, {slots}{letters}"


def _watch(out: Output, target: "Target", which: _Which) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from longhaul.cli.display.job import row_of
    from longhaul.cli.terminal.jobs import jobs_table

    with Live(console=out.data, screen=True, auto_refresh=False) as live:
        while True:
            seen = _look(target, which)
            rows = [row_of(lease, seen.now, seen.waits) for lease in seen.shown(which.limit)]
            notes = [Text(note, style="dim") for note in _notes(seen, which.limit)]
            head = Text(f"{target}, {seen.now:%H:%M:%S}Z; Ctrl-C ends this", style="dim")
            live.update(Group(head, jobs_table(rows), *notes), refresh=True)
            time.sleep(_PERIOD_S)


def _history(out: Output, target: "Target", lease: "Lease") -> None:
    from longhaul.cli.display.attempt import COLUMNS, row_of
    from longhaul.cli.display.job import asked_for
    from longhaul.operations.asked import request_of
    from longhaul.operations.view import attempt_record, request_record

    attempts = target.parts.leases.history([lease])[lease.key]
    now = target.parts.clock.now()
    asked = request_of(lease, target.parts.requests)
    if not out.as_json:
        for name, value in asked_for(lease, asked, now):
            out.note(f"{name}: {value}")
    if out.as_json:
        for record in attempts:
            # The request that is kept is of the last run.
            of_run = asked if record.run == lease.run else None
            request = request_record(of_run) if of_run else None
            attempt = attempt_record(record, target.parts.executions, now)
            out.record({**attempt, "request": request})
    else:
        out.table(COLUMNS, [row_of(record, now) for record in attempts])
    for note in _notes_of_attempts(lease, attempts, now):
        out.note(note)


def _notes_of_attempts(
    lease: "Lease", attempts: "Sequence[AttemptRecord]", now: datetime
) -> list[str]:
    from longhaul.cli.insight.timeline import SegmentKind, lane
    from longhaul.domain.lease import State

    if lease.is_mark or (lease.is_planned and lease.state.is_terminal):
        if attempts:
            return [
                "its latest run was cancelled before it began: these attempts are of earlier runs"
            ]
        ended = "refused" if lease.is_refused else "cancelled"
        return [f"{ended} before it began: it had no attempt"]
    if not attempts:
        return ["it has not begun"]
    notes = []
    earlier = attempts[0].attempt.number - 1
    if earlier:
        notes.append(f"{earlier} earlier attempt{'s are' if earlier > 1 else ' is'} not remembered")
    shown = lane(lease, attempts)
    waited = sum(
        shown.seconds(now, kind) for kind in (SegmentKind.WAITING, SegmentKind.BACKING_OFF)
    )
    ran = sum(shown.seconds(now, kind) for kind in (SegmentKind.STARTING, SegmentKind.RUNNING))
    ending = (
        lease.state.value if lease.state is not State.RELEASED else "waits for its next attempt"
    )
    return [*notes, f"{lease.job_id}: {ending}; waited {waited:.0f} s and ran {ran:.0f} s in all"]
