"""`longhaul logs`."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.display.text import counted, log_line
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, Only, StageOption
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longhaul.cli.target import Target
    from longhaul.domain.lease import AttemptId, Lease
    from longhaul.operations.cloudwatch_logs import LogEvent
    from longhaul.operations.log_reader import LogCursor, LogStream


_PERIOD_S = 1.0

# A look at a tree reads all its rows, a hundred in a call.
_S_PER_JOB = 0.005


@on_target
def logs(
    target: "Target",
    *,
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The job's id or label, or how one begins.")
    ],
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Which attempt.", show_default="the latest")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Go on with new lines, attempt after attempt, until the job and all that"
            " descends from it have ended.",
        ),
    ] = False,
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the log of a job's attempt, and of the latest ones of all that descends from it.

    Lines of the runner are shown as time, level and message, other lines as they were written.
    A failed attempt ends with the message that its row has and the frames of the job's own code,
    the last call at the end. --json gives time, text and attempt of each line, in a tree also the
    job.

    Example: longhaul logs flights-2013-01 --attempt 1

    Example: longhaul logs flights-2013-01 --follow
    """
    from longhaul.cli.terminal.selection import find_job

    out = Output(as_json=as_json)
    if follow and attempt is not None:
        raise CommandError(
            "--follow prints attempt after attempt: leave --attempt out", ExitStatus.USAGE
        )
    lease = _await_row(out, target, job, stage) if follow else find_job(target, job, stage)
    if not (lease.is_begun or lease.attempt.number or follow):
        ended = "refused" if lease.is_refused else "cancelled"
        why = f"it was {ended} before it began" if lease.is_mark else "it has not begun"
        raise CommandError(
            f"job {lease.job_id} has no log: {why}",
            ExitStatus.NOT_FOUND,
        )
    if attempt is not None and attempt > lease.attempt.number:
        raise CommandError(
            f"job {lease.job_id} has had {counted(lease.attempt.number, 'attempt')} so far, "
            f"there is no attempt {attempt}",
            ExitStatus.NOT_FOUND,
        )
    if follow:
        _follow(out, target, lease, only=only)
        return
    below = [] if only or attempt else list(_below(target, lease))
    if below:
        for each in (lease, *below):
            _print_latest(out, target, each)
        return
    number = attempt or lease.attempt.number
    _print(out, number, target.logs.lines(_stream(target, lease, number)))


def _stream(target: "Target", lease: "Lease", number: int) -> "LogStream":
    """The stream of that attempt.

    Raises:
        CommandError: it has none.
    """
    attempts = {
        each.attempt.number: each for each in target.parts.leases.history([lease])[lease.key]
    }
    record = attempts.get(number)
    if record is None:
        why = "is no longer remembered (`longhaul status JOB --history` shows those that are)"
    elif stream := target.logs.stream(record):
        return stream
    else:
        why = "never had a task" if record.ended_at else "has not begun to write"
    raise CommandError(f"attempt {number} of job {lease.job_id} {why}", ExitStatus.NOT_FOUND)


def _below(target: "Target", lease: "Lease") -> "Iterator[Lease]":
    """The rows of the jobs that descend from the job, as far as they have begun."""
    rows = (job.lease for job in target.trees.walk(lease).all() if job.key != lease.key)
    return (row for row in rows if row is not None and row.is_begun)


def _print_latest(out: Output, target: "Target", lease: "Lease") -> None:
    """Print the log of a job's latest attempt under its name, or why there is none."""
    out.note(f"attempt {lease.attempt.number} of {lease.job_id}")
    try:
        stream = _stream(target, lease, lease.attempt.number)
    except CommandError as error:
        out.note(str(error), style="yellow")
        return
    _print(out, lease.attempt.number, target.logs.lines(stream), lease.job_id)


def _await_row(out: Output, target: "Target", job: str, stage: str | None) -> "Lease":
    """Wait for the job's row: the job may still be queued."""
    from longhaul.cli.terminal.selection import find_job, job_id

    try:
        return find_job(target, job, stage)
    except CommandError as error:
        if error.status is not ExitStatus.NOT_FOUND:
            raise
        out.note(f"{error}; waiting for it (Ctrl-C ends this)")
    names = [each.name for each in target.stages(stage)]
    while not target.jobs.find(names, job_id(job)):
        target.parts.clock.sleep(_PERIOD_S)
    return find_job(target, job, stage)


def _follow(out: Output, target: "Target", lease: "Lease", *, only: bool) -> None:
    """Print attempt after attempt, from those that run, until the job's tree has ended."""
    from longhaul.domain.history import latest
    from longhaul.operations.log_reader import GRACE
    from longhaul.operations.tree import progress
    from longhaul.trees import TreeJob

    followed: dict[AttemptId, _Followed] = {}
    named: str | None = None
    while True:
        lease = target.parts.leases.load(lease.key) or lease
        tree = TreeJob(lease.key, lease) if only else target.trees.walk(lease)
        now, is_alone = target.parts.clock.now(), not tree.children
        for row in (job.lease for job in tree.all()):
            if row is None or not row.is_begun:
                continue
            if row.id not in followed and (stream := target.logs.stream(latest(row))):
                followed[row.id] = _Followed(target.logs.cursor(stream))
            for attempt, each in followed.items():
                if attempt.key == row.key and (attempt != row.id or row.has_settled(row.id)):
                    each.ended_at = each.ended_at or now
        for attempt, each in followed.items():
            if each.is_over:
                continue
            name = attempt.key.partition("#")[2]
            if lines := each.cursor.read_on():
                title = f"attempt {attempt.attempt} of {name}"
                if named != title:
                    named = title
                    out.note(title)
                _print(out, attempt.attempt, iter(lines), None if is_alone else name)
            each.is_over = each.ended_at is not None and now - each.ended_at >= GRACE
        if tree.has_ended and all(each.is_over for each in followed.values()):
            out.note(f"{lease.job_id}: {progress(tree) if tree.children else lease.state.value}")
            return
        target.parts.clock.sleep(max(_PERIOD_S, _S_PER_JOB * sum(1 for _ in tree.all())))


@dataclass
class _Followed:
    """The log of an attempt, which is read on for a moment after its end."""

    cursor: "LogCursor"
    ended_at: datetime | None = None
    is_over: bool = False


def _print(out: Output, attempt: int, events: "Iterator[LogEvent]", job: str | None = None) -> None:
    """Print lines. `job`: its id, where the lines of several jobs come one after the other."""
    from longhaul.operations.view import iso

    named = {"job_id": job} if job else {}
    for event in events:
        if out.as_json:
            out.record({**named, "time": iso(event.at), "attempt": attempt, "text": event.text})
        else:
            out.write(log_line(event))
