"""What one attempt uses of AWS: its task by the clock, all else counted or, where nobody counts, modelled. Pure.

`tests/handlers/test_calls.py` holds the calls of a job, `tests/unit/test_usage.py` the states of the machine against these figures.
"""

from dataclasses import dataclass
from datetime import datetime

from longhaul.domain.history import Attempt
from longhaul.domain.lease import CommittedOutput
from longhaul.settings import RuntimeSettings, TaskSize

# States entered, each a transition: RunUnderLease, RunOnFargate, FirstWait, Settle, Outcome, Done; and the last beat, which finds that the job has settled.
_TRANSITIONS = 9
_TRANSITIONS_PER_BEAT = 3  # Wait, Beat, AfterBeat

# GB-seconds of a function's call: its memory, and how long it takes when it is warm. Assumed, not measured on AWS; a call waits for two to four services.
_DISPATCH_GB_S = 1.0 * 0.3
_SETTLE_GB_S = 1.0 * 0.5
_BEAT_GB_S = 0.5 * 0.15

_QUEUE_REQUESTS = 3  # sent, received, deleted or released

# Write units, each of at most 1 KB; in a transaction each counts twice. Claim: row and slots, and two indexes. Settle: row, slots, history, and three changes
# of indexes. Register, commit, published, strike off.
_ROW_UNITS = 2
_WRITE_UNITS = 2 * (_ROW_UNITS + 1) + 2 + 2 * (_ROW_UNITS + 1 + 1) + 3 + 4 * _ROW_UNITS
_READ_UNITS = 4  # row and slots at the claim, row at settle and at the beat that ends

_REQUEST_PUTS = 2  # the request beside the row, the list of pending uploads
_PART_MIB = 8


@dataclass(frozen=True)
class Usage:
    """Of one attempt. What is counted are fields; what follows from them are properties.

    `task_s` are the seconds for which its task is paid; `by_ecs`: ECS told from when to when, else it is from the claim to the end.
    """

    size: TaskSize | None  # None when the settings do not know its size any more
    spot: bool
    task_s: float
    by_ecs: bool
    beats: int
    reports: int  # of progress
    puts: int

    @property
    def transitions(self) -> int:
        return _TRANSITIONS + _TRANSITIONS_PER_BEAT * self.beats

    @property
    def function_calls(self) -> int:
        """Dispatcher, settle, the beats, and the one that finds that the job has settled."""
        return 3 + self.beats

    @property
    def function_gb_s(self) -> float:
        return _DISPATCH_GB_S + _SETTLE_GB_S + _BEAT_GB_S * (self.beats + 1)

    @property
    def queue_requests(self) -> int:
        return _QUEUE_REQUESTS + self.beats

    @property
    def write_units(self) -> int:
        return _WRITE_UNITS + _ROW_UNITS * (self.beats + self.reports)

    @property
    def read_units(self) -> int:
        return _READ_UNITS + self.beats


def usage(attempt: Attempt, output: CommittedOutput | None, settings: RuntimeSettings, now: datetime) -> Usage:
    """What an attempt has used until now. `output` is what it committed."""
    task_s, by_ecs = _task_seconds(attempt, now)
    return Usage(
        size=next((size for name, size in settings.tasks.sizes.items() if name == attempt.size), None),
        spot=attempt.capacity == "FARGATE_SPOT",
        task_s=task_s,
        by_ecs=by_ecs,
        beats=attempt.beats + attempt.hand_overs,
        # The runner reports while it works; before, it has not begun.
        reports=round(_worked_s(attempt, now) / settings.lease.progress_period_s),
        puts=_REQUEST_PUTS + (_puts_of(output) if output else 0),
    )


def _task_seconds(attempt: Attempt, now: datetime) -> tuple[float, bool]:
    """For how long the task is paid, and whether ECS said so."""
    if attempt.task_arn is None:
        return 0.0, False  # there was none, as far as anybody knows
    begin, end = attempt.task_from or attempt.claimed_at, attempt.task_until or attempt.ended_at or now
    return max(0.0, (end - begin).total_seconds()), None not in (attempt.task_from, attempt.task_until)


def _worked_s(attempt: Attempt, now: datetime) -> float:
    if attempt.started_at is None:
        return 0.0
    return max(0.0, ((attempt.ended_at or now) - attempt.started_at).total_seconds())


def _puts_of(output: CommittedOutput) -> int:
    """Create, parts and complete of each file, and the manifest."""
    parts = max(output.files, -(-output.size_bytes // (_PART_MIB * 1024 * 1024)))
    return 2 * output.files + parts + 1
