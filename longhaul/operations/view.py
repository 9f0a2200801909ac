"""Jobs and attempts as flat values, for programs, and as JSON objects, for `--json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Literal

from longhaul.core.history import AttemptRecord as AttemptRecord
from longhaul.core.lease import ENDED, JobState, Lease, Owed, State
from longhaul.core.pace import SlotUse
from longhaul.core.ports import Executions
from longhaul.core.request import JobRequest
from longhaul.core.results import NOTHING, Results
from longhaul.core.settings import LeaseSettings, RuntimeSettings
from longhaul.engines.listed import ENGINES
from longhaul.saved.record import waits_for_next

_NONE: Final[Mapping[str, SlotUse]] = MappingProxyType({})


@dataclass(frozen=True)
class Wait:
    """One wait.

    `until`: when it is over at the latest; None for a pause, which a person ends, and for a slot,
    which another job gives back.
    """

    what: Literal["pause", "back-off", "slot", "message"]
    until: datetime | None = None


def wait_of(row: Lease, use: SlotUse | None, timing: LeaseSettings, now: datetime) -> Wait | None:
    """What a job between two attempts waits for; None for another.

    `use`: the slots of its stage; None where they are not known.
    """
    if row.state is not State.RELEASED or row.is_mark:
        return None
    if row.retry_at is not None and now < row.retry_at and not (use and use.paused_at):
        return Wait("back-off", until=row.retry_at)
    # A message that is lost is replaced by then, see `Sweeper`.
    replaced_at = now - row.unseen_for(now) + timedelta(seconds=timing.missing_after_s)
    return wait_for_slot(use) or Wait("message", until=replaced_at)


def wait_for_slot(use: SlotUse | None) -> Wait | None:
    """What keeps a stage from starting the next job; None where nothing does, as far as known."""
    if use is not None and use.paused_at is not None:
        return Wait("pause")
    return Wait("slot") if use is not None and use.running >= use.slots else None


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """How a job stands. What does not apply, or is not known yet, is None; times are aware UTC.

    Attributes:
        job_id: Its id, which is unique in its stage.
        stage: The stage whose queue it came through.
        state: `QUEUED`, `RUNNING`, `RELEASED` (it waits for its next attempt), `CANCELLING`, or
            how it ended: `SUCCEEDED`, `DEAD`, `CANCELLED`. `UNREADABLE` if another version wrote
            its row, or its task something that is none.
        name: A short name: its label, or its id; of a follow-on also its stage and its place among
            its siblings, such as `2026-10-05/clean` and `2026-10-05/clean/07`.
        label: What people call it.
        tags: Names and values to find it by.
        job: The job's name, or the path of its code.
        sent_at: When the work was asked for; of a follow-on, when its parent ended.
        sender: By whom, as SQS names a sender: the id of an IAM user, or of a role with its
            session. None of what Longhaul has sent.
        root: Id of the first job of its pipeline: its own, unless another job led to it.
        parent: Id of the job whose success led to it.
        run: Epoch milliseconds of the first claim, or of a deliberate re-run.
        attempt: The number of its latest attempt; 0 before the first.
        failures: Attempts that failed, of `max_attempts`.
        max_attempts: Failures before it is dead.
        interruptions: Attempts that the platform ended; they do not count as failures.
        run_began: `run` as a time.
        attempt_began: When its latest attempt was claimed.
        seconds: Duration of its latest attempt, so far if it runs.
        size: The task's size, such as `small`.
        engine: What it runs on, such as `fargate`.
        timeout_s: Seconds after which an attempt is stopped.
        progress: What the latest attempt last reported.
        progress_at: When it last advanced.
        beats: Heartbeats of the latest attempt.
        lease_expires_at: Of a running job: when its lease ends unless it is renewed.
        kind: What the end of its latest attempt meant, such as `failed`, `permanent` or
            `timed_out`: docs/internals/architecture.md has the table.
        error: Why, in a sentence.
        settled_at: When its latest attempt was settled.
        retry_at: Of a released job: the earliest start of its next attempt.
        waits_for: Of a released job: `pause` of its stage, `start` (a time of its own),
            `back-off`, `slot` or `message`; of a queued one in the tree of another also `pause`,
            `slot` or `message`.
        waits_until: When that is over at the latest; None for a pause and a slot.
        cancel_requested_at: When it was cancelled.
        owed: What is still to be done after its end.
        saved_at: When it last stored something for its next attempt (docs/checkpoints.md); None
            where there is nothing, or it is not needed any more.
        saved_bytes: What is stored.
        saved_by: The number of the attempt that stored it.
        output: Where its output is: `s3://…/`, or `table://DATABASE/NAME`.
        outputs: The same for its further outputs, by name.
        published_at: When its output became visible.
        result: Of a success: what the job returned, as JSON has it.
        result_problem: Why what it returned was not kept.
        rows: Of a success: the exact numbers of rows by dataset, where they are known; `.` is the
            output itself.
        metrics: Of a success: what the job measured, by name.
        message_id: Of its message in SQS.
        receive_count: How often that message was received.
        execution_arn: Step Functions' execution of the latest attempt.
        log_group: Where its lines are in CloudWatch Logs.
        log_stream: The stream of its latest attempt.
    """

    job_id: str
    stage: str
    state: JobState
    name: str = ""
    label: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    job: str | None = None
    sent_at: datetime | None = None
    sender: str | None = None
    root: str | None = None
    parent: str | None = None
    run: int | None = None
    attempt: int = 0
    failures: int = 0
    max_attempts: int | None = None
    interruptions: int = 0
    run_began: datetime | None = None
    attempt_began: datetime | None = None
    seconds: float | None = None
    size: str | None = None
    engine: str | None = None
    timeout_s: int | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)
    progress_at: datetime | None = None
    beats: int = 0
    lease_expires_at: datetime | None = None
    kind: str | None = None
    error: str | None = None
    settled_at: datetime | None = None
    retry_at: datetime | None = None
    waits_for: str | None = None
    waits_until: datetime | None = None
    cancel_requested_at: datetime | None = None
    owed: tuple[str, ...] = ()
    saved_at: datetime | None = None
    saved_bytes: int = 0
    saved_by: int | None = None
    output: str | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    published_at: datetime | None = None
    result: Any = None
    result_problem: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    message_id: str | None = None
    receive_count: int = 0
    execution_arn: str | None = None
    log_group: str | None = None
    log_stream: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, and nothing is left to do for it."""
        return self.state in ENDED and not self.owed

    @property
    def key(self) -> str:
        """`stage#job_id`, which no other job has."""
        return f"{self.stage}#{self.job_id}"

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.state not in ENDED

    @property
    def is_running(self) -> bool:
        """Whether an attempt of it goes on, also one that is being stopped."""
        return self.lease_expires_at is not None

    @property
    def was_accepted(self) -> bool:
        """Whether it was claimed. Else it is queued, or ended before it began."""
        return self.size is not None

    @property
    def moment(self) -> datetime | None:
        """The end of an ended job; the begin of its run for another."""
        return (self.settled_at if self.state in ENDED else None) or self.run_began

    @property
    def fraction(self) -> float | None:
        """Of its work, from 0 to 1; None where the job does not report it."""
        given = self.progress.get("fraction")
        return max(0.0, min(1.0, float(given))) if isinstance(given, int | float) else None

    @property
    def phase(self) -> str:
        """What it is doing, or did last."""
        if self.progress_at is None:
            return "starting"
        return str(self.progress.get("note") or self.progress.get("phase") or "")

    @property
    def results(self) -> list[tuple[str, str]]:
        """What a success returned, counted and measured: names and texts."""
        found = Results(self.result, self.result_problem, {**self.rows}, {**self.metrics})
        return result_texts(found)


def result_texts(found: Results) -> list[tuple[str, str]]:
    """What a success returned, counted and measured: names and texts.

    As in `1,200, daily 31, outputs.report 5` of rows, and `bad_rows 12, share 0.25` of metrics.
    """
    value = "" if found.value is None else json.dumps(found.value, separators=(",", ":"))
    rows = (
        f"{count:,}" if name == "." else f"{name} {count:,}" for name, count in found.rows.items()
    )
    metrics = (f"{name} {value:,.10g}" for name, value in found.metrics.items())
    texts = [
        ("result", f"not kept: {found.problem}" if found.problem else value),
        ("rows", ", ".join(rows)),
        ("metrics", ", ".join(metrics)),
    ]
    return [(name, text) for name, text in texts if text]


def job_status(
    lease: Lease,
    settings: RuntimeSettings,
    executions: Executions,
    now: datetime,
    uses: Mapping[str, SlotUse] = _NONE,
) -> JobStatus:
    """Everything about a job that has a row. `uses`: slots by stage, as far as they are known."""
    wait = wait_of(lease, uses.get(lease.stage), settings.lease, now)
    execution = None if lease.is_mark else lease.input
    stream = ENGINES.log_stream(lease.attempt)
    saved_by = waits_for_next(lease, now)
    return JobStatus(
        job_id=lease.job_id,
        stage=lease.stage,
        state=lease.shown_state,
        name=name_of(lease),
        label=lease.label,
        tags=lease.tags,
        job=execution.job if execution else None,
        sent_at=lease.receive.first_sent_at,
        sender=lease.receive.sender,
        root=lease.root.partition("#")[2],
        parent=lease.lineage.parent.partition("#")[2] if lease.lineage else None,
        run=lease.run,
        attempt=lease.attempt.number,
        failures=lease.failures,
        max_attempts=lease.max_attempts,
        interruptions=lease.interruptions,
        run_began=lease.run_began,
        attempt_began=lease.attempt.claimed_at if not lease.is_mark else None,
        seconds=_seconds(lease, now) if not lease.is_mark else None,
        size=execution.size if execution else None,
        engine=execution.engine if execution else None,
        timeout_s=execution.timeout_s if execution else None,
        progress=lease.attempt.progress,
        progress_at=lease.attempt.progress_at,
        beats=lease.attempt.beats,
        lease_expires_at=lease.attempt.lease_expires_at if lease.state is State.RUNNING else None,
        kind=lease.last_class,
        error=lease.last_error,
        settled_at=lease.settled_at,
        retry_at=lease.retry_at if lease.state is State.RELEASED else None,
        waits_for=wait.what if wait else None,
        waits_until=wait.until if wait else None,
        cancel_requested_at=lease.cancel_requested_at,
        owed=tuple(owed.value for owed in lease.owed),
        saved_at=lease.saved_at if saved_by else None,
        saved_bytes=lease.saved_bytes if saved_by else 0,
        saved_by=saved_by.attempt if saved_by else None,
        output=lease.attempt.output.prefix if lease.attempt.output else None,
        outputs=lease.attempt.output.paths if lease.attempt.output else {},
        published_at=lease.attempt.published_at,
        **results_record(lease.results),
        message_id=lease.receive.message_id or None,
        receive_count=lease.receive.receive_count,
        execution_arn=executions.arn(lease.id.execution_name) if not lease.is_mark else None,
        log_group=settings.job_log_group if stream else None,
        log_stream=stream,
    )


def name_of(lease: Lease) -> str:
    """A short name of a job: `JobStatus.name`.

    A follow-on without a label has its root's id in the place of its own.
    """
    if lease.lineage is None:
        return lease.label or lease.job_id
    # Where a job is the only one, its place says nothing.
    places = (group.n for group in lease.lineage.groups if group.size != 1)
    place = ".".join(f"{n + 1:02}" for n in places)
    return f"{lease.label or lease.root.partition('#')[2]}/{lease.stage}/{place}".rstrip("/")


def is_stopped(lease: Lease) -> bool:
    """Whether a cancel of the job stops it: it has neither committed its output nor ended."""
    return lease.state is State.CANCELLED or not (lease.state.is_terminal or lease.is_committed)


def cancelled_as(lease: Lease) -> str:
    """The effect of a cancel, in words."""
    if lease.is_open_mark:
        return "not claimed yet: it ends when its message comes"
    if lease.is_committed or Owed.FOLLOW_ONS in lease.owed:
        return "its output is committed: it ends, and nothing follows it"
    if lease.state is State.RUNNING:
        return "running: it is being stopped"
    if lease.state is State.CANCELLED:
        return "cancelled"
    return (
        f"has ended before: {lease.state.value}; a rerun that is queued ends when its message comes"
    )


def request_record(request: JobRequest) -> dict[str, Any]:
    """What was asked for."""
    hidden = {"version", "job_id", "lineage", "label", "tags"}
    return request.model_dump(exclude=hidden, exclude_none=True)


def as_json(status: JobStatus) -> dict[str, Any]:
    """A status as a flat JSON object. Times are ISO 8601 in UTC."""
    values = {each.name: getattr(status, each.name) for each in fields(status)}
    return {
        "class" if name == "kind" else name: iso(value) if isinstance(value, datetime) else value
        for name, value in values.items()
    }


def results_record(results: Results | None) -> dict[str, Any]:
    """What a success returned, counted and measured, as fields of a JSON object."""
    found = results or NOTHING
    return {
        "result": found.value,
        "result_problem": found.problem,
        "rows": found.rows,
        "metrics": found.metrics,
    }


def attempt_names(record: AttemptRecord) -> dict[str, Any]:
    """Which attempt it is, and how it ended: the begin of each JSON object about one."""
    return {
        "job_id": record.key.partition("#")[2],
        "stage": record.stage,
        "run": record.run,
        "attempt": record.attempt.number,
        "class": record.kind,
    }


def attempt_record(record: AttemptRecord, executions: Executions, now: datetime) -> dict[str, Any]:
    """Everything about an attempt; as `job_record`."""
    since, end = record.queued_at or record.attempt.claimed_at, record.ended_at or now
    return {
        **attempt_names(record),
        "reason": record.reason,
        "state": record.state.value,
        "queued_at": iso(record.queued_at),
        "due_at": iso(record.due_at),
        "claimed_at": iso(record.attempt.claimed_at),
        "started_at": iso(record.attempt.started_at),
        "ended_at": iso(record.ended_at),
        "saved_at": iso(record.saved_at),
        "waited_s": _between(since, record.attempt.claimed_at),
        "seconds": _between(record.attempt.claimed_at, end),
        "beats": record.attempt.beats,
        "beat_times": [iso(each) for each in record.beat_times],
        "adoptions": record.attempt.adoptions,
        "hand_overs": record.attempt.hand_overs,
        "progress": record.attempt.progress,
        **results_record(record.results),
        "size": record.size,
        "capacity": record.capacity,
        "task_from": iso(record.attempt.task_from),
        "task_until": iso(record.attempt.task_until),
        "execution_arn": executions.arn(record.id.execution_name),
        "log_stream": ENGINES.log_stream(record.attempt),
    }


def _seconds(lease: Lease, now: datetime) -> float:
    """The duration of the latest attempt, so far if it runs."""
    end = lease.settled_at if lease.has_settled(lease.id) and lease.settled_at else now
    return _between(lease.attempt.claimed_at, end)


def _between(begin: datetime, end: datetime) -> float:
    """Seconds. Two clocks may differ: never negative."""
    return round(max(0.0, (end - begin).total_seconds()), 1)


def iso(value: datetime | None) -> str | None:
    """ISO 8601 in UTC, to the millisecond."""
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z") if value else None
