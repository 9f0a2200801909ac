"""An attempt on a line."""

from datetime import datetime

from longhaul.cli.display.text import age, moment_text
from longhaul.operations.view import AttemptRecord, result_texts

COLUMNS = ("attempt", "outcome", "began", "waited", "ran", "beats", "size", "got to", "why")


def row_of(record: AttemptRecord, now: datetime) -> list[str]:
    """The cells of `COLUMNS`."""
    end = record.ended_at or now
    spot = " spot" if record.capacity == "FARGATE_SPOT" else ""
    return [
        str(record.attempt.number),
        record.kind or record.state.value,
        moment_text(record.attempt.claimed_at),
        age(record.attempt.claimed_at, record.queued_at) if record.queued_at else "",
        age(end, record.attempt.claimed_at),
        _beats(record),
        f"{record.size}{spot}",
        ", ".join(filter(None, (_got_to(record), _taken_over(record)))),
        record.reason or _results(record),
    ]


def _beats(record: AttemptRecord) -> str:
    """With hand-overs and adoptions, which are too rare for columns of their own."""
    parts = [f"{record.attempt.beats}"]
    parts += [f"handed over {record.attempt.hand_overs}x"] if record.attempt.hand_overs else []
    parts += [f"adopted {record.attempt.adoptions}x"] if record.attempt.adoptions else []
    return ", ".join(parts)


def _results(record: AttemptRecord) -> str:
    """What a success returned, counted and measured."""
    texts = result_texts(record.results) if record.results else ()
    return "; ".join(f"{name} {text}" for name, text in texts)


def _taken_over(record: AttemptRecord) -> str:
    """What it went on from, or why from nothing."""
    taken = record.attempt.progress.get("taken_over")
    return f"took over {taken}" if taken else ""


def _got_to(record: AttemptRecord) -> str:
    if record.kind == "succeeded":
        return "done"  # its last report is seconds older than its end
    if record.attempt.started_at is None:
        return "never started" if record.ended_at else "starting"
    fraction, phase = (
        record.attempt.progress.get("fraction"),
        record.attempt.progress.get("phase") or "started",
    )
    return f"{phase} {fraction:.0%}" if isinstance(fraction, int | float) else str(phase)
