"""`longhaul logs`: what an attempt of a job wrote."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

from console.errors import CommandError, ExitCode
from console.options import AsJson, StageName, find_job, job_id, on_target, unknown
from console.output import Output, printable
from console.target import Target
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
    stream = target.logs.stream(lease, wanted)
    if stream is None:
        why = "has not begun to write" if wanted == lease.attempt else "left no log, or it has expired"
        raise CommandError(f"attempt {wanted} of job {lease.job_id} {why}", ExitCode.NOT_FOUND)
    _print(out, wanted, target.logs.lines(stream, partial(_runs, target, lease, wanted) if follow else None))


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
        stream = target.logs.stream(lease, lease.attempt) if lease.attempt not in told else None
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
            out.write(_line(event))


def _line(event: LogEvent) -> str:
    """A line of the runner's is JSON, for machines: here without what all lines of an attempt have in common."""
    try:
        found = json.loads(event.text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "message" not in found:
        return printable(event.text, lines=True).replace("\n", " ")
    common = {"timestamp", "level", "logger", "message", "job_id", "attempt", "execution"}
    rest = " ".join(f"{name}={value}" for name, value in found.items() if name not in common)
    return printable(
        f"{str(found.get('timestamp', ''))[11:23]} {found.get('level', '')!s:7} {found['message']} {rest}"
    ).rstrip()
