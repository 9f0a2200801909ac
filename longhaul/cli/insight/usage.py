"""What one attempt uses of AWS: its task's time, and calls that are counted or modelled. Pure.

Two tests hold these numbers: `tests/handlers/test_calls.py` compares the calls of a job,
`tests/cli/insight/test_usage.py` the states of the machine.
"""

from dataclasses import dataclass
from datetime import datetime

from longhaul.domain.beat import reports_within
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import CommittedOutput
from longhaul.domain.pace import LOOKS, MEAN_JITTER
from longhaul.engines.aws_lambda.ends import SIZE
from longhaul.settings import LeaseSettings, RuntimeSettings, TaskSize

# Each state entered is a transition: RunUnderLease, Rights, MainRights, RunOnFargate, FirstWait,
# Settle, Outcome, Done, and the three of the last beat, which finds the job settled.
_TRANSITIONS = 11
_TRANSITIONS_PER_BEAT = 3  # Wait, Beat, AfterBeat

# GB-seconds of a function's call: its memory times the duration of a warm call. Assumed, not
# measured on AWS; a call waits for two to four services.
_DISPATCH_GB_S = 1.0 * 0.3
_SETTLE_GB_S = 1.0 * 0.5
_BEAT_GB_S = 0.5 * 0.15

# While it waited for a slot: an invocation for each look at its message, with a receive, the
# queue's depth and a new visibility, and two reads. Ten messages may share one.
_LOOK_GB_S = 1.0 * 0.07
_REQUESTS_PER_LOOK = 3
_READS_PER_LOOK = 2

_QUEUE_REQUESTS = 3  # sent, received, deleted or released

# Write units, each of at most 1 KB; a transaction counts each twice. Claim: row, slots, and two
# indexes. Settle: row, slots, history, and three index changes. Then register, commit, published
# and strike off.
_ROW_UNITS = 2
_WRITE_UNITS = 2 * (_ROW_UNITS + 1) + 2 + 2 * (_ROW_UNITS + 1 + 1) + 3 + 4 * _ROW_UNITS
_READ_UNITS = 4  # row and slots at the claim, the row at settle and at the last beat

_GB_MONTH = 1024**3 * 30 * 24 * 3600  # in byte-seconds

_REQUEST_PUTS = 2  # the request beside the row, the list of pending uploads
_PART_MIB = 8


@dataclass(frozen=True)
class Usage:
    """The use of one attempt: fields are counted, properties follow from them.

    `task_s` are the seconds that its task is charged for. With `by_ecs` they are ECS's own, else
    they are the time from the claim to the end.
    """

    size: TaskSize | None  # None when the settings no longer have its size
    spot: bool
    task_s: float
    by_ecs: bool
    beats: int
    reports: int  # of progress
    puts: int
    on_lambda: bool = False
    looks: int = 0  # at its message, while it waited for a slot
    # What the job has stored, from the attempt's claim until the next one's or the run's end: as
    # if all of it had been there from the beginning.
    stored_gb_months: float = 0.0

    @property
    def transitions(self) -> int:
        return _TRANSITIONS + _TRANSITIONS_PER_BEAT * self.beats

    @property
    def function_calls(self) -> int:
        """Dispatcher, settle, the beats, and the last beat, which finds the job settled."""
        return 3 + self.beats + self.looks

    @property
    def function_gb_s(self) -> float:
        beats = _BEAT_GB_S * (self.beats + 1)
        return _DISPATCH_GB_S + _SETTLE_GB_S + beats + _LOOK_GB_S * self.looks

    @property
    def queue_requests(self) -> int:
        return _QUEUE_REQUESTS + self.beats + _REQUESTS_PER_LOOK * self.looks

    @property
    def write_units(self) -> int:
        return _WRITE_UNITS + _ROW_UNITS * (self.beats + self.reports)

    @property
    def read_units(self) -> int:
        return _READ_UNITS + self.beats + _READS_PER_LOOK * self.looks


def usage(
    record: AttemptRecord,
    output: CommittedOutput | None,
    settings: RuntimeSettings,
    now: datetime,
    stored_until: datetime | None = None,
) -> Usage:
    """The use of an attempt until now.

    `output` is what it committed; `stored_until`, when what the job had stored by its end was taken
    over or removed. None: it is there.
    """
    task_s, by_ecs = _task_seconds(record, now)
    return Usage(
        size=next(
            (size for name, size in settings.tasks.sizes.items() if name == record.size), None
        ),
        spot=record.capacity == "FARGATE_SPOT" and record.size != SIZE,
        on_lambda=record.size == SIZE,
        task_s=task_s,
        by_ecs=by_ecs,
        beats=record.attempt.beats + record.attempt.hand_overs,
        # The runner reports only while it works.
        reports=reports_within(
            _worked_s(record, now),
            settings.lease,
            settings.stage_or_removed(record.stage).stall_timeout_s,
        ),
        puts=_REQUEST_PUTS + (_puts_of(output) if output else 0),
        looks=_looks(record, settings.lease),
        stored_gb_months=record.saved_bytes
        * max(0.0, ((stored_until or now) - record.attempt.claimed_at).total_seconds())
        / _GB_MONTH,
    )


def _looks(record: AttemptRecord, timing: LeaseSettings) -> int:
    """About how often the dispatcher looked at the message of a job that waited for a slot.

    As `domain.pace` hides it: for a part of the likely wait, of which the real one is a guess.
    """
    since = record.due_at or record.queued_at
    if since is None:
        return 0
    waited_s = (record.attempt.claimed_at - since).total_seconds()
    hidden_s = min(max(waited_s / LOOKS, timing.defer_min_s), timing.defer_max_s)
    return max(0, int(waited_s / (MEAN_JITTER * hidden_s)))


def _task_seconds(record: AttemptRecord, now: datetime) -> tuple[float, bool]:
    """The seconds that the task is charged for, and whether they are ECS's own."""
    if record.attempt.task_arn is None:
        return 0.0, False  # no task is known
    begin, end = (
        record.attempt.task_from or record.attempt.claimed_at,
        record.attempt.task_until or record.ended_at or now,
    )
    return max(0.0, (end - begin).total_seconds()), None not in (
        record.attempt.task_from,
        record.attempt.task_until,
    )


def _worked_s(record: AttemptRecord, now: datetime) -> float:
    if record.attempt.started_at is None:
        return 0.0
    return max(0.0, ((record.ended_at or now) - record.attempt.started_at).total_seconds())


def _puts_of(output: CommittedOutput) -> int:
    """Create, parts and complete for each file, and the manifest of each output."""
    puts = 0
    for each in output.by_name.values():
        parts = max(each.files, -(-each.size_bytes // (_PART_MIB * 1024 * 1024)))
        puts += 2 * each.files + parts + 1
    return puts
