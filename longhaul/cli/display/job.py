"""A job on a line, and a job on a page."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from longhaul.cli.display.text import age, moment_text, size_text
from longhaul.core.durations import format_duration
from longhaul.operations.view import JobStatus

COLUMNS: Final = ("id", "label", "state", "stage", "attempt", "age", "progress", "why")
NOT_KNOWN: Final = (
    "nothing is known of it: a typo, or it is queued, and ends when its message comes"
)
_BAR: Final = 10
_MAX_WHY: Final = 160
_MAX_INPUTS: Final = 5
_MAX_PARAMS: Final = 2_000


def row_of(job: JobStatus, now: datetime) -> list[str]:
    """The job's name, and the cells of `COLUMNS`."""
    return [
        job.name,
        job.job_id,
        job.label or "",
        job.state,
        job.stage,
        str(job.attempt) if job.attempt_began else "",
        age(now, job.moment) if job.moment else "",
        progress_of(job),
        why_of(job, now),
    ]


def progress_of(job: JobStatus) -> str:
    """A bar and the phase, while the job runs."""
    if not job.is_running:
        return ""
    if job.fraction is None:
        return job.phase
    full = round(job.fraction * _BAR)
    return f"{'━' * full}{'╌' * (_BAR - full)} {job.fraction:4.0%} {job.phase}"


def why_of(job: JobStatus, now: datetime) -> str:
    """The reason for its state: what it owes or waits for, and its last error."""
    if job.owed:
        return f"still owes: {', '.join(job.owed)}"
    error = "" if job.state == "SUCCEEDED" else error_of(job)
    error = error if len(error) <= _MAX_WHY else f"{error[:_MAX_WHY]}…"
    return "; ".join(filter(None, (wait_of(job, now), error)))


def wait_of(job: JobStatus, now: datetime) -> str:
    """What a released or a queued job waits for, and until when."""
    until = job.waits_until
    match job.waits_for:
        case "pause":
            return "waits for its stage, which is paused: `longhaul stage resume` ends that"
        case "back-off" if until:
            return f"again in {age(until, now)}"
        case "slot":
            return "waits for a slot: all of its stage are taken"
        case "message":
            again = f"; were it lost, a copy is sent after {moment_text(until)}" if until else ""
            return f"waits for its message{again}"
    return ""


def error_of(job: JobStatus) -> str:
    """What the end of its latest attempt meant, and why."""
    return ": ".join(filter(None, (job.kind, job.error)))


def page_of(
    job: JobStatus, now: datetime, asked: Mapping[str, Any] | None = None
) -> list[tuple[str, str]]:
    """Everything that helps to understand the job: names and values, none of them empty.

    `asked`: its request, where it could be read.
    """
    pairs = _facts(job, now, asked) if job.was_accepted else _never_begun(job, now)
    return [(name, value) for name, value in pairs if value]


def _facts(
    job: JobStatus, now: datetime, asked: Mapping[str, Any] | None
) -> Sequence[tuple[str, str]]:
    return [
        ("job", job.job_id),
        ("stage", job.stage),
        *asked_for(job, asked, now),
        ("follows", _origin(job)),
        ("state", job.state),
        ("progress", progress_of(job)),
        (
            "attempt",
            f"{job.attempt}, begun {_ago(job.attempt_began, now)}" if job.attempt_began else "",
        ),
        ("failures", f"{job.failures} of {job.max_attempts}" if job.failures else ""),
        ("interruptions", str(job.interruptions or "")),
        ("size", f"{job.size}, timeout {format_duration(job.timeout_s or 0)}"),
        ("beats", str(job.beats or "")),
        ("last progress", _ago(job.progress_at, now) if job.is_running else ""),
        ("lease until", moment_text(job.lease_expires_at)),
        ("stored", _stored(job, now)),
        ("waits", wait_of(job, now)),
        ("last outcome" if job.is_open else "ended", _ago(job.settled_at, now)),
        ("class", job.kind or ""),
        ("error", job.error or ""),
        ("owes", ", ".join(job.owed)),
        ("cancelled", _ago(job.cancel_requested_at, now)),
        ("output", job.output or ""),
        ("outputs", _named(job.outputs)),
        ("published", _ago(job.published_at, now)),
        *job.results,
        ("execution", job.execution_arn or ""),
        ("log", f"{job.log_group}:{job.log_stream}" if job.log_stream else ""),
    ]


def _never_begun(job: JobStatus, now: datetime) -> Sequence[tuple[str, str]]:
    if job.is_open:
        return [("job", job.job_id), ("state", job.state), ("", NOT_KNOWN)]
    return [
        ("job", job.job_id),
        ("stage", job.stage),
        ("state", job.state),
        ("", f"{ended_before(job)} before it began"),
        ("error", error_of(job)),
        ("ended", _ago(job.settled_at, now)),
    ]


def ended_before(job: JobStatus) -> str:
    """What ended a job that never began, in a word."""
    return "refused" if job.state == "DEAD" else "cancelled"


def asked_for(
    job: JobStatus, asked: Mapping[str, Any] | None, now: datetime
) -> Iterator[tuple[str, str]]:
    """What was asked for, by whom and when: names and values, which may be empty."""
    yield "label", job.label or ""
    yield "tags", _named(job.tags)
    yield "runs", job.job or ""
    if asked is not None:
        inputs = dict([*asked["inputs"].items()][:_MAX_INPUTS])
        more = len(asked["inputs"]) - len(inputs)
        yield "inputs", _named(inputs) + (f", and {more} more" if more else "")
        params = json.dumps(asked["params"], ensure_ascii=False) if asked["params"] else ""
        yield "params", params if len(params) <= _MAX_PARAMS else f"{params[:_MAX_PARAMS]}…"
        yield "writes to", f"{asked['output']}, mode {asked['mode']}"
        yield "also to", _named(asked["outputs"])
    by = f" by {job.sender}" if job.sender else ""
    sent = _ago(job.sent_at, now)
    yield "asked for" if job.parent else "sent", f"{sent}{by}" if sent else ""


def _named(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _origin(job: JobStatus) -> str:
    """The parent of a follow-on, and the root where that is another job."""
    if job.parent is None:
        return ""
    return job.parent if job.parent == job.root else f"{job.parent}, of {job.root}"


def _stored(job: JobStatus, now: datetime) -> str:
    """What the next attempt goes on from."""
    if job.saved_by is None:
        return ""
    what = size_text(job.saved_bytes) if job.saved_bytes else "its state"
    return f"{what} by attempt {job.saved_by}, {_ago(job.saved_at, now)}"


def _ago(moment: datetime | None, now: datetime) -> str:
    return f"{age(now, moment)} ago ({moment_text(moment)})" if moment else ""
