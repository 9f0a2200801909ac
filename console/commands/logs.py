"""`longhaul logs`: what an attempt of a job wrote."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

from console.errors import CommandError, ExitCode
from console.log_line import readable
from console.options import AsJson, StageName, find_job, job_id, on_target, unknown
from console.output import Output
from console.target import Target
from longhaul.domain.history import latest
from longhaul.domain.lease import Lease
from longhaul.ports import LogEvent
from longhaul.view import iso

_PERIOD_S = 1.0


@on_target
def logs(
    target: Target,
    *,
    job: Annotated[str, typer.Argument(help="The job's id.")],
    attempt: Annotated[int | None, typer.Option(min=1, help="Which attempt.", show_default="the latest")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as it is written, attempt after attempt, until the job ends.")
    ] = False,
    stage: StageName = None,
    as_json: AsJson = False,
) -> None:
    """Print the log of a job's attempt.

    The runner's own lines are shown as time, level and message; everything else as it was written. --json gives all of it: time, text, attempt.

    Example: longhaul logs flights-2013-01 --attempt 1

    Example: longhaul logs flights-2013-01 --follow
    """
    out = Output(as_json=as_json)
    lease = _known(out, target, job, stage) if follow else find_job(target, job, stage)
    if attempt is not None and attempt > lease.attempt:
        raise CommandError(
            f"job {lease.job_id} has had {lease.attempt} attempts so far, there is no attempt {attempt}",
            ExitCode.NOT_FOUND,
        )
    if follow and attempt is None:
        _follow(out, target, lease)
        return
    wanted = attempt or lease.attempt
    stream = _stream(target, lease, wanted)
    _print(out, wanted, target.logs.lines(stream, partial(_runs, target, lease, wanted) if follow else None))


def _stream(target: Target, lease: Lease, wanted: int) -> str:
    """The stream of that attempt.

    Raises:
        CommandError: it has none.
    """
    attempts = {each.attempt: each for each in target.parts.leases.history([lease])[lease.key]}
    found = attempts.get(wanted)
    if found is None:
        why = "is not remembered any more (`longhaul history` shows those that are)"
    elif stream := target.logs.stream(found):
        return stream
    else:
        why = "never had a task" if found.ended_at else "has not begun to write"
    raise CommandError(f"attempt {wanted} of job {lease.job_id} {why}", ExitCode.NOT_FOUND)


def _known(out: Output, target: Target, job: str, stage: str | None) -> Lease:
    """The job's row, as soon as it has one: who follows may come before the dispatcher."""
    wanted, told = job_id(job), False
    names = [each.name for each in target.stages(stage)]
    while not target.jobs.find(names, wanted):
        if not told:
            out.note(f"{unknown(wanted)}; waiting for it (Ctrl-C ends this)")
            told = True
        target.parts.clock.sleep(_PERIOD_S)
    return find_job(target, job, stage)


def _follow(out: Output, target: Target, lease: Lease) -> None:
    """Attempt after attempt, from the one that runs, until the job has ended."""
    told: set[int] = set()
    while True:
        stream = target.logs.stream(latest(lease)) if lease.attempt not in told else None
        if stream is not None:
            told.add(lease.attempt)
            out.note(f"attempt {lease.attempt} of {lease.job_id}")
            _print(out, lease.attempt, target.logs.lines(stream, partial(_runs, target, lease, lease.attempt)))
        elif lease.state.is_terminal:
            out.note(f"{lease.job_id}: {lease.state.value}")
            return
        else:
            target.parts.clock.sleep(_PERIOD_S)
        lease = target.parts.leases.load(lease.key) or lease


def _runs(target: Target, lease: Lease, attempt: int) -> bool:
    row = target.parts.leases.load(lease.key)
    return row is not None and row.attempt == attempt and row.settled_attempt < attempt


def _print(out: Output, attempt: int, events: Iterator[LogEvent]) -> None:
    for event in events:
        if out.as_json:
            out.record({"time": iso(event.at), "attempt": attempt, "text": event.text})
        else:
            out.write(readable(event))
