"""`longhaul history`."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, StageOption
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longhaul.cli.target import Target
    from longhaul.domain.history import AttemptRecord
    from longhaul.domain.lease import Lease


@on_target
def history(
    target: "Target",
    *,
    job: Annotated[str, typer.Argument(help="The job's id.")],
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Show every attempt of a job: when it began, its wait and run time, how it ended and why.

    A redrive or a retry starts a new run, whose attempts continue the numbers of the last one.
    --json adds all times, adoptions, hand-overs, the execution and the log.

    Example: longhaul history flights-2013-01
    """
    from longhaul.cli.display.attempt import COLUMNS, row_of
    from longhaul.cli.display.job import asked_for
    from longhaul.cli.terminal.selection import find_job
    from longhaul.operations.asked import request_of
    from longhaul.operations.view import attempt_record, request_record

    out = Output(as_json=as_json)
    lease = find_job(target, job, stage)
    attempts = target.parts.leases.history([lease])[lease.key]
    now = target.parts.clock.now()
    asked = request_of(lease, target.parts.requests)
    if not as_json:
        for name, value in asked_for(lease, asked, now):
            out.note(f"{name}: {value}")
    if as_json:
        for record in attempts:
            # The request that is kept is of the last run.
            of_run = asked if record.run == lease.run else None
            request = request_record(of_run) if of_run else None
            attempt = attempt_record(record, target.parts.executions, now)
            out.record({**attempt, "request": request})
    else:
        out.table(COLUMNS, [row_of(record, now) for record in attempts])
    for note in _notes(lease, attempts, now):
        out.note(note)


def _notes(lease: "Lease", attempts: "Sequence[AttemptRecord]", now: datetime) -> list[str]:
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
