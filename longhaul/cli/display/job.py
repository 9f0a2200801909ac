"""A job on a line, and a job on a page."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime

from longhaul.cli.display.text import age, moment_text, size_text
from longhaul.domain.durations import format_duration
from longhaul.domain.history import log_stream
from longhaul.domain.job_state import shown_state
from longhaul.domain.lease import Lease, Owed, State
from longhaul.domain.request import JobRequest
from longhaul.domain.saved import waits_for_next
from longhaul.domain.waiting import Wait, Waits
from longhaul.engines.aws_lambda.ends import LAMBDA, ends_by
from longhaul.engines.listed import engine_of
from longhaul.operations.find import moment_of
from longhaul.operations.view import request_record
from longhaul.ports import Executions

COLUMNS = ("id", "label", "state", "stage", "attempt", "age", "progress", "why")
NOT_KNOWN = "nothing is known of it: if it is queued, it ends when its message comes"
_BAR = 10
_MAX_WHY = 160
_MAX_INPUTS = 5
_MAX_PARAMS = 2_000


def row_of(lease: Lease, now: datetime, waits: Waits | None = None) -> list[str]:
    """The job's name, and the cells of `COLUMNS`."""
    attempt = str(lease.attempt.number) if lease.is_begun else ""
    return [
        name_of(lease),
        lease.job_id,
        lease.label or "",
        shown_state(lease),
        lease.stage,
        attempt,
        age(now, moment_of(lease)),
        progress_of(lease),
        why_of(lease, now, waits),
    ]


def name_of(lease: Lease) -> str:
    """A short name: the label, or the id; of a follow-on also stage and place among its siblings.

    Such as `2026-10-05/clean` and `2026-10-05/clean/07`. A follow-on without a label has its root's
    id in the place of its own.
    """
    if lease.lineage is None:
        return lease.label or lease.job_id
    # Where a job is the only one, its place says nothing.
    places = (group.n for group in lease.lineage.groups if group.size != 1)
    place = ".".join(f"{n + 1:02}" for n in places)
    return f"{lease.label or lease.root.partition('#')[2]}/{lease.stage}/{place}".rstrip("/")


def progress_of(lease: Lease) -> str:
    """A bar and the phase, while the job runs."""
    if lease.state is not State.RUNNING:
        return ""
    fraction, phase = fraction_of(lease), phase_of(lease)
    if fraction is None:
        return phase
    full = round(fraction * _BAR)
    return f"{'━' * full}{'╌' * (_BAR - full)} {fraction:4.0%} {phase}"


def fraction_of(lease: Lease) -> float | None:
    """From 0 to 1; None when the job does not report it."""
    fraction = lease.attempt.progress.get("fraction")
    return max(0.0, min(1.0, float(fraction))) if isinstance(fraction, int | float) else None


def phase_of(lease: Lease) -> str:
    """What a running job is doing."""
    if lease.attempt.progress_at is None:
        return "starting"
    return str(lease.attempt.progress.get("note") or lease.attempt.progress.get("phase") or "")


def is_stopped(lease: Lease) -> bool:
    """Whether a cancel of the job stops it: it has neither committed its output nor ended."""
    return lease.state is State.CANCELLED or not (lease.state.is_terminal or lease.is_committed)


def cancelled_as(lease: Lease) -> str:
    """The effect of a cancel."""
    if lease.is_open_mark:
        return "not claimed yet: it ends when its message comes"
    if lease.is_committed or Owed.FOLLOW_ONS in lease.owed:
        return "its output is committed: it ends, and nothing follows it"
    if lease.state is State.RUNNING:
        return "running: it is being stopped"
    if lease.state is State.CANCELLED:
        return "cancelled"
    return f"has ended before: {lease.state.value}"


def why_of(lease: Lease, now: datetime, waits: Waits | None = None) -> str:
    """The reason for its state: what it owes or waits for, and its last error."""
    if lease.owed:
        return f"still owes: {', '.join(owed.value for owed in lease.owed)}"
    if lease.state is State.RELEASED and not lease.is_mark:
        return "; ".join(filter(None, (_wait_text(lease, now, waits), _error(lease))))
    return "" if lease.state is State.SUCCEEDED else _error(lease)


def _wait_text(lease: Lease, now: datetime, waits: Waits | None) -> str:
    """What a released job waits for, and until when."""
    wait = waits.of(lease) if waits else None
    if wait is None:  # nothing is known of its stage
        if lease.is_planned and lease.retry_at and lease.retry_at > now:
            return _begin_text(lease.retry_at, now)
        if lease.retry_at and lease.retry_at > now:
            return f"again in {format_duration((lease.retry_at - now).total_seconds())}"
        return "waits for its message and a slot"
    match wait.what:
        case "pause":
            return _paused_text(wait)
        case "start" if wait.until:
            return _begin_text(wait.until, now)
        case "back-off" if wait.until:
            return f"again in {format_duration((wait.until - now).total_seconds())}"
        case "slot":
            place = f", number {wait.place} of {wait.others + 1} between attempts"
            order = place if wait.place else ""
            return f"waits for a slot: {wait.slots} of {wait.slots} taken{order}"
    within = format_duration(waits.look_within.total_seconds()) if waits else ""
    return (
        f"waits for its message, which comes within {within}; were it lost, a copy is sent after"
        f" {moment_text(wait.until)}"
    )


def _begin_text(begin: datetime, now: datetime) -> str:
    return f"begins at {moment_text(begin)}, in {age(begin, now)}"


def queued_text(wait: Wait) -> str:
    """What the queued jobs of a stage wait for."""
    match wait.what:
        case "pause":
            return _paused_text(wait)
        case "slot":
            return f"waits for a slot: {wait.slots} of {wait.slots} taken"
    return "waits for its message"


def _paused_text(wait: Wait) -> str:
    since = moment_text(wait.since)
    return f"waits for its stage, paused since {since}: `longhaul stage resume` ends that"


def _error(lease: Lease) -> str:
    text = f"{lease.last_class}: {lease.last_error}" if lease.last_error else lease.last_class or ""
    return text if len(text) <= _MAX_WHY else f"{text[:_MAX_WHY]}…"


def page_of(
    lease: Lease,
    now: datetime,
    executions: Executions,
    log_group: str,
    request: JobRequest | None = None,
    waits: Waits | None = None,
) -> list[tuple[str, str]]:
    """Everything that helps to understand the job: names and values, none of them empty.

    `request`: where it could be read. What looks like a secret in it is cut.
    """
    if lease.is_mark:
        return list(_mark(lease, now))
    execution, stream = lease.input, log_stream(lease.attempt)
    ended = lease.state.is_terminal
    pairs = [
        ("job", lease.job_id),
        ("stage", lease.stage),
        *asked_for(lease, request, now),
        ("follows", _origin(lease)),
        ("state", shown_state(lease)),
        ("progress", progress_of(lease)),
        (
            "attempt",
            f"{lease.attempt.number}, begun {_ago(lease.attempt.claimed_at, now)}"
            if lease.is_begun
            else "",
        ),
        ("failures", f"{lease.failures} of {lease.max_attempts}" if lease.failures else ""),
        ("interruptions", str(lease.interruptions or "")),
        ("size", f"{execution.size}, timeout {format_duration(execution.timeout_s)}"),
        ("beats", f"{lease.attempt.beats}" if lease.attempt.beats else ""),
        (
            "last progress",
            _ago(lease.attempt.progress_at, now) if lease.state is State.RUNNING else "",
        ),
        (
            "lease until",
            moment_text(lease.attempt.lease_expires_at) if lease.state is State.RUNNING else "",
        ),
        ("stored", _stored(lease, now)),
        ("retry" if lease.is_begun else "waits", _retry(lease, now, waits)),
        ("ended" if ended else "last outcome", _ago(lease.settled_at, now)),
        ("next run", _next_run(lease, now)),
        ("class", lease.last_class or ""),
        ("error", lease.last_error or ""),
        ("owes", ", ".join(owed.value for owed in lease.owed)),
        (
            "cancel",
            f"asked for {_ago(lease.cancel_requested_at, now)}"
            if lease.cancel_requested_at
            else "",
        ),
        ("output", lease.attempt.output.prefix if lease.attempt.output else ""),
        ("outputs", _named(lease.attempt.output.paths) if lease.attempt.output else ""),
        ("published", _ago(lease.attempt.published_at, now)),
        *(lease.results.texts if lease.results else ()),
        ("execution", executions.arn(lease.id.execution_name) if lease.is_begun else ""),
        ("log", f"{log_group}:{stream}" if stream else ""),
    ]
    return [(name, value) for name, value in pairs if value]


def _mark(lease: Lease, now: datetime) -> Iterator[tuple[str, str]]:
    yield "job", lease.job_id
    if lease.is_open_mark:
        yield "state", shown_state(lease)
        yield "", NOT_KNOWN
        return
    yield "stage", lease.stage
    yield "state", shown_state(lease)
    yield "", "refused before it began" if lease.is_refused else "cancelled before it began"
    if lease.is_refused:
        yield "error", _error(lease)
    yield "ended", _ago(lease.settled_at, now)


def asked_for(lease: Lease, request: JobRequest | None, now: datetime) -> list[tuple[str, str]]:
    """What was asked for, by whom and when: names and values, none of them empty."""
    pairs = () if lease.is_mark else _asked_for(lease, request, now)
    return [(name, value) for name, value in pairs if value]


def _asked_for(
    lease: Lease, request: JobRequest | None, now: datetime
) -> Iterator[tuple[str, str]]:
    yield "label", lease.label or ""
    yield "tags", ", ".join(f"{name}={value}" for name, value in lease.tags.items())
    yield "runs", lease.input.job or ""
    if request is not None:
        shown = request_record(request)
        inputs = [f"{name}={path}" for name, path in shown["inputs"].items()]
        more = f", and {len(inputs) - _MAX_INPUTS} more" if len(inputs) > _MAX_INPUTS else ""
        yield "inputs", ", ".join(inputs[:_MAX_INPUTS]) + more
        params = json.dumps(shown["params"], ensure_ascii=False) if shown["params"] else ""
        yield "params", params if len(params) <= _MAX_PARAMS else f"{params[:_MAX_PARAMS]}…"
        yield "writes to", f"{shown['output']}, mode {shown['mode']}"
        yield "also to", _named(shown["outputs"])
    by = f" by {lease.receive.sender}" if lease.receive.sender else ""
    sent = _ago(lease.receive.first_sent_at, now)
    yield "asked for" if lease.lineage else "sent", f"{sent}{by}" if sent else ""


def _named(paths: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={path}" for name, path in paths.items())


def waits_for(lease: Lease, now: datetime) -> str | None:
    """What a new run of an ended job waits for that may be longer than some minutes."""
    gone_by = _gone_by(lease, now)
    if gone_by is None:
        return None
    return (
        f"starts when the invocation of attempt {lease.attempt.number} has ended for certain, "
        f"by {moment_text(gone_by)}: it cannot be asked, nor stopped"
    )


def _gone_by(lease: Lease, now: datetime) -> datetime | None:
    """When the invocation of the latest attempt has ended; None where it surely has."""
    task = lease.attempt.task_arn
    if task is None or lease.attempt.is_over or engine_of(task) is not LAMBDA:
        return None
    gone_by = ends_by(task)
    return gone_by if gone_by > now else None


def _next_run(lease: Lease, now: datetime) -> str:
    """Of an ended job: until when a new run waits. Its row does not show that it was sent again."""
    waits = waits_for(lease, now)
    may_run = lease.state in (State.DEAD, State.CANCELLED) and waits
    return f"if it was sent again, {waits}" if may_run else ""


def _retry(lease: Lease, now: datetime, waits: Waits | None) -> str:
    if lease.state is not State.RELEASED:
        return ""
    when, gone_by = _wait_text(lease, now, waits), _gone_by(lease, now)
    if gone_by is None or lease.retry_at is None or lease.retry_at < gone_by:
        return when
    return f"{when}, when the invocation of attempt {lease.attempt.number} has ended for certain"


def _origin(lease: Lease) -> str:
    """The parent of a follow-on, and the root where that is another job."""
    if lease.lineage is None:
        return ""
    parent, root = (key.partition("#")[2] for key in (lease.lineage.parent, lease.root))
    return parent if parent == root else f"{parent}, of {root}"


def _stored(lease: Lease, now: datetime) -> str:
    """What the next attempt goes on from."""
    by = waits_for_next(lease, now)
    if by is None:
        return ""
    what = size_text(lease.saved_bytes) if lease.saved_bytes else "its state"
    return f"{what} by attempt {by.attempt}, {_ago(lease.saved_at, now)}"


def _ago(moment: datetime | None, now: datetime) -> str:
    return f"{age(now, moment)} ago ({moment_text(moment)})" if moment else ""
