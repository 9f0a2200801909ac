"""An attempt on a line."""

from datetime import datetime

from console.show import age, moment_text
from longhaul.domain.history import Attempt
from longhaul.domain.outcome import OutcomeClass

COLUMNS = ("attempt", "outcome", "began", "waited", "ran", "beats", "size", "got to", "why")


def row_of(attempt: Attempt, now: datetime) -> list[str]:
    """The cells of `COLUMNS`."""
    end = attempt.ended_at or now
    spot = " spot" if attempt.capacity == "FARGATE_SPOT" else ""
    return [
        str(attempt.attempt),
        attempt.kind or attempt.state.value,
        moment_text(attempt.claimed_at),
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
    if attempt.kind == OutcomeClass.SUCCEEDED:
        return "done"  # whatever its last report said: they come every few seconds
    if attempt.started_at is None:
        return "never started" if attempt.ended_at else "starting"
    fraction, phase = attempt.progress.get("fraction"), attempt.progress.get("phase") or "started"
    return f"{phase} {fraction:.0%}" if isinstance(fraction, int | float) else str(phase)
