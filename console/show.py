"""A job on a line, and a job on a page."""

import re
from datetime import datetime

from longhaul.domain.durations import format_duration
from longhaul.domain.lease import Lease, State
from longhaul.job_logs import stream_of
from longhaul.jobs import moment_of
from longhaul.ports import Executions
from longhaul.view import shown_state

COLUMNS = ("job", "state", "stage", "attempt", "age", "progress", "why")
_BAR = 10
_MAX_WHY = 160
_UNIT = re.compile(r"\d+[dhms]")


def row_of(lease: Lease, now: datetime) -> list[str]:
    """The cells of `COLUMNS`."""
    attempt = "" if lease.is_mark else str(lease.attempt)
    return [
        lease.job_id,
        shown_state(lease),
        lease.stage,
        attempt,
        age(now, moment_of(lease)),
        progress_of(lease),
        why_of(lease, now),
    ]


def age(now: datetime, moment: datetime) -> str:
    """In at most two units: `3d4h`, `2m`, `12s`."""
    return "".join(_UNIT.findall(format_duration(max(0.0, (now - moment).total_seconds())))[:2])


def progress_of(lease: Lease) -> str:
    """A bar with what the runner says, while it runs."""
    if lease.state is not State.RUNNING:
        return ""
    fraction, phase = fraction_of(lease), phase_of(lease)
    if fraction is None:
        return phase
    full = round(fraction * _BAR)
    return f"{'━' * full}{'╌' * (_BAR - full)} {fraction:4.0%} {phase}"


def fraction_of(lease: Lease) -> float | None:
    """How far it is, from 0 to 1; None when nobody can say."""
    fraction = lease.progress.get("fraction")
    return max(0.0, min(1.0, float(fraction))) if isinstance(fraction, int | float) else None


def phase_of(lease: Lease) -> str:
    """What a running job does."""
    if lease.progress_at is None:
        return "starting"
    return str(lease.progress.get("note") or lease.progress.get("phase") or "")


def cancelled_as(lease: Lease) -> str:
    """What became of a cancel."""
    if lease.is_mark:
        return "not claimed yet: it ends when its message comes"
    if lease.state is State.RUNNING:
        return "running: it is being stopped"
    if lease.state is State.CANCELLED:
        return "cancelled"
    return f"has ended before: {lease.state.value}"


def why_of(lease: Lease, now: datetime) -> str:
    """Why it is where it is."""
    if lease.owed:
        return f"still owes: {', '.join(owed.value for owed in lease.owed)}"
    if lease.state is State.RELEASED and not lease.is_mark:
        seconds = (lease.retry_at - now).total_seconds() if lease.retry_at else 0
        when = (
            f"again in {format_duration(seconds)}" if seconds > 0 else "again when its message comes and a slot is free"
        )
        return f"{when}; {_error(lease)}"
    return "" if lease.state is State.SUCCEEDED else _error(lease)


def _error(lease: Lease) -> str:
    text = f"{lease.last_class}: {lease.last_error}" if lease.last_error else lease.last_class or ""
    return text if len(text) <= _MAX_WHY else f"{text[:_MAX_WHY]}…"


def page_of(lease: Lease, now: datetime, executions: Executions, log_group: str) -> list[tuple[str, str]]:
    """Names and values of everything that helps; empty values are to be left out."""
    if lease.is_mark:
        return [
            ("job", lease.job_id),
            ("stage", lease.stage),
            ("state", "CANCELLING"),
            ("", "cancelled before it began: it ends when its message comes"),
        ]
    execution, stream = lease.input, stream_of(lease)
    ended = lease.state.is_terminal
    pairs = [
        ("job", lease.job_id),
        ("stage", lease.stage),
        ("follows", _origin(lease)),
        ("state", shown_state(lease)),
        ("progress", progress_of(lease)),
        ("attempt", f"{lease.attempt}, begun {_ago(lease.claimed_at, now)}"),
        ("failures", f"{lease.failures} of {lease.max_attempts}" if lease.failures else ""),
        ("interruptions", str(lease.interruptions or "")),
        ("size", f"{execution.size}, timeout {format_duration(execution.timeout_s)}"),
        ("beats", f"{lease.beats}" if lease.beats else ""),
        ("last progress", _ago(lease.progress_at, now) if lease.state is State.RUNNING else ""),
        ("lease until", moment_text(lease.lease_expires_at) if lease.state is State.RUNNING else ""),
        ("retry", why_of(lease, now).partition(";")[0] if lease.state is State.RELEASED else ""),
        ("ended" if ended else "last outcome", _ago(lease.settled_at, now)),
        ("class", lease.last_class or ""),
        ("error", lease.last_error or ""),
        ("owes", ", ".join(owed.value for owed in lease.owed)),
        ("cancel", f"asked for {_ago(lease.cancel_requested_at, now)}" if lease.cancel_requested_at else ""),
        ("output", lease.output.prefix if lease.output else ""),
        ("published", _ago(lease.published_at, now)),
        ("execution", executions.arn(lease.id.execution_name)),
        ("log", f"{log_group}:{stream}" if stream else ""),
    ]
    return [(name, value) for name, value in pairs if value]


def _origin(lease: Lease) -> str:
    """Which job led to this one, and with which all began."""
    if lease.lineage is None:
        return ""
    parent, root = (key.partition("#")[2] for key in (lease.lineage.parent, lease.root))
    return parent if parent == root else f"{parent}, of {root}"


def _ago(moment: datetime | None, now: datetime) -> str:
    return f"{age(now, moment)} ago ({moment_text(moment)})" if moment else ""


def moment_text(moment: datetime | None) -> str:
    """To the second, in UTC; nothing for None."""
    return f"{moment:%Y-%m-%d %H:%M:%S}Z" if moment else ""
