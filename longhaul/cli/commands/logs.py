"""`longhaul logs`."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.display.text import log_line
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, Only, StageOption
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from longhaul.cli.target import Target
    from longhaul.operations.logs import LogCursor, LogEvent, LogStream
    from longhaul.operations.named import Work
    from longhaul.operations.tree import TreeJob


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
    from longhaul.operations.named import find_work

    out = Output(as_json=as_json)
    if follow and attempt is not None:
        raise CommandError(
            "--follow prints attempt after attempt: leave --attempt out", ExitStatus.USAGE
        )
    if follow:
        _follow(out, target, _await(out, target, job, stage), only=only)
        return
    work = find_work(target, job, stage)
    tree = work.tree(target, only=only or attempt is not None)
    jobs = [
        each
        for each in tree.all()
        if each.key == work.key or (each.lease is not None and not each.lease.is_mark)
    ]
    for each in jobs:
        number = attempt or (each.lease.attempt.number if each.lease else 0)
        if len(jobs) > 1:
            out.note(f"attempt {number} of {each.job_id}")
        try:
            stream = _stream(target, each, number)
        except CommandError as error:
            if len(jobs) == 1:
                raise
            out.note(str(error), style="yellow")
        else:
            named = each.job_id if len(jobs) > 1 else None
            _print(out, number, target.logs.lines(stream), named)


def _stream(target: "Target", job: "TreeJob", number: int) -> "LogStream":
    """The stream of that attempt.

    Raises:
        CommandError: it has none.
    """
    rows = [job.lease] if job.lease else []
    attempts = target.parts.leases.history(rows).get(job.key, ())
    record = next((each for each in attempts if each.attempt.number == number), None)
    stream = target.logs.stream(record) if record else None
    if stream is not None:
        return stream
    if record is not None:
        why = "never had a task" if record.ended_at else "has not begun to write"
    elif number:
        why = "is not known (`longhaul status JOB --history` shows those that are)"
    else:
        raise CommandError(f"job {job.job_id} has had no attempt", ExitStatus.NOT_FOUND)
    raise CommandError(f"attempt {number} of job {job.job_id} {why}", ExitStatus.NOT_FOUND)


def _await(out: Output, target: "Target", job: str, stage: str | None) -> "Work":
    """Wait until something is known of the job: it may still be queued."""
    from longhaul.operations.errors import NoSuchJobError
    from longhaul.operations.named import find_work

    is_said = False
    while True:
        try:
            return find_work(target, job, stage)
        except NoSuchJobError as error:
            if not is_said:
                out.note(f"{error}; waiting for it (Ctrl-C ends this)")
            is_said = True
        target.parts.clock.sleep(_PERIOD_S)


def _follow(out: Output, target: "Target", work: "Work", *, only: bool) -> None:
    """Print attempt after attempt, from those that run, until the job's tree has ended."""
    from longhaul.operations.logs import GRACE, LogCursor
    from longhaul.operations.named import find_at
    from longhaul.operations.tree import progress

    followed: dict[object, _Followed] = {}
    named: str | None = None
    while True:
        work = find_at(target, work.key) or work
        tree, now = work.tree(target, only=only), target.parts.clock.now()
        rows = [job.lease for job in tree.all() if job.lease is not None and not job.lease.is_mark]
        for row in rows:
            if row.id not in followed and (stream := target.logs.latest_stream(row)):
                cursor = LogCursor(target.logs, stream)
                followed[row.id] = _Followed(row.job_id, row.attempt.number, cursor)
        going = {row.id for row in rows if not row.has_settled(row.id)}
        for attempt, each in followed.items():
            if each.is_over:
                continue
            if attempt not in going:
                each.ended_at = each.ended_at or now
            if lines := each.cursor.read_on():
                title = f"attempt {each.number} of {each.name}"
                if named != title:
                    named = title
                    out.note(title)
                _print(out, each.number, lines, each.name if tree.children else None)
            each.is_over = each.ended_at is not None and now - each.ended_at >= GRACE
        if tree.has_ended and all(each.is_over for each in followed.values()):
            out.note(f"{tree.job_id}: {progress(tree) if tree.children else tree.state}")
            return
        target.parts.clock.sleep(max(_PERIOD_S, _S_PER_JOB * sum(1 for _ in tree.all())))


@dataclass
class _Followed:
    """The log of an attempt, which is read on for a moment after its end."""

    name: str
    number: int
    cursor: "LogCursor"
    ended_at: datetime | None = None
    is_over: bool = False


def _print(out: Output, attempt: int, events: "Iterable[LogEvent]", job: str | None = None) -> None:
    """Print lines. `job`: its id, where the lines of several jobs come one after the other."""
    from longhaul.operations.view import iso

    named = {"job_id": job} if job else {}
    for event in events:
        if out.as_json:
            out.record({**named, "time": iso(event.at), "attempt": attempt, "text": event.text})
        else:
            out.write(log_line(event))
