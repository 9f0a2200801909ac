"""`longhaul history`: every attempt of a job."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from console.options import AsJson, StageName, find_job, on_target
from console.output import Output
from console.show import age
from console.target import Target
from longhaul.domain.history import Attempt
from longhaul.domain.lease import Lease, State
from longhaul.domain.timeline import SegmentKind, lane
from longhaul.view import attempt_record

COLUMNS = ("attempt", "outcome", "began", "waited", "ran", "beats", "size", "got to", "why")


@on_target
def history(
    target: Target,
    *,
    job: Annotated[str, typer.Argument(help="The job's id.")],
    stage: StageName = None,
    as_json: AsJson = False,
) -> None:
    """Show every attempt of a job: how long it waited, when it began, how far it came, how it ended and why.

    An attempt of another run (after a redrive or a retry of a dead job) counts on. --json gives all of it: times, adoptions, hand-overs, execution and log.

    Example: longhaul history flights-2013-01
    """
    out = Output(as_json=as_json)
    lease = find_job(target, job, stage)
    attempts = target.parts.leases.history([lease])[lease.key]
    now = target.parts.clock.now()
    if as_json:
        for attempt in attempts:
            out.record(attempt_record(attempt, target.parts.executions, now))
    else:
        out.table(COLUMNS, [_row(attempt, now) for attempt in attempts])
    for note in _notes(lease, attempts, now):
        out.note(note)


def _row(attempt: Attempt, now: datetime) -> list[str]:
    """The cells of `COLUMNS`."""
    end = attempt.ended_at or now
    spot = " spot" if attempt.capacity == "FARGATE_SPOT" else ""
    return [
        str(attempt.attempt),
        attempt.kind or attempt.state.value,
        f"{attempt.claimed_at:%Y-%m-%d %H:%M:%S}Z",
        age(attempt.claimed_at, attempt.queued_at) if attempt.queued_at else "",
        age(end, attempt.claimed_at),
        _beats(attempt),
        f"{attempt.size}{spot}",
        _got_to(attempt),
        attempt.reason or "",
    ]


def _beats(attempt: Attempt) -> str:
    """With what happened between beats: rare enough to need no columns."""
    parts = [f"{attempt.beats}"]
    parts += [f"handed over {attempt.hand_overs}x"] if attempt.hand_overs else []
    parts += [f"adopted {attempt.adoptions}x"] if attempt.adoptions else []
    return ", ".join(parts)


def _got_to(attempt: Attempt) -> str:
    if attempt.started_at is None:
        return "never started" if attempt.ended_at else "starting"
    fraction, phase = attempt.progress.get("fraction"), attempt.progress.get("phase") or "started"
    return f"{phase} {fraction:.0%}" if isinstance(fraction, int | float) else str(phase)


def _notes(lease: Lease, attempts: Sequence[Attempt], now: datetime) -> list[str]:
    if lease.is_mark:
        return ["cancelled before it began: it had no attempt"]
    found = []
    earlier = attempts[0].attempt - 1
    if earlier:
        found.append(f"{earlier} earlier attempt{'s are' if earlier > 1 else ' is'} not remembered")
    shown = lane(lease, attempts)
    waited = sum(shown.seconds(now, kind) for kind in (SegmentKind.WAITING, SegmentKind.BACKING_OFF))
    ran = sum(shown.seconds(now, kind) for kind in (SegmentKind.STARTING, SegmentKind.RUNNING))
    ended = lease.state.value if lease.state is not State.RELEASED else "waits for its next attempt"
    return [*found, f"{lease.job_id}: {ended}; waited {waited:.0f} s and ran {ran:.0f} s in all"]
