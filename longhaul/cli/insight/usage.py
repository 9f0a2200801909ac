"""What one attempt uses of AWS that makes a difference to its price. Pure.

The calls of functions, queue and table are left out: together some 0.00004 dollars an attempt.
`tests/cli/insight/test_usage.py` compares the transitions with the machine's.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import CommittedOutput
from longhaul.engines.aws_lambda.ends import SIZE
from longhaul.settings import RuntimeSettings, TaskSize

# Each state entered is a transition: RunUnderLease, Rights, MainRights, RunOnFargate, FirstWait,
# Settle, Outcome, Done, and the three of the last beat, which finds the job settled.
_TRANSITIONS: Final = 11
_TRANSITIONS_PER_BEAT: Final = 3  # Wait, Beat, AfterBeat

_REQUEST_PUTS: Final = 2  # the request beside the row, the list of pending uploads
_PART_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True)
class Usage:
    """The use of one attempt.

    `task_s` are the seconds that its task is charged for. With `by_ecs` they are ECS's own, else
    they are the time from the claim to the end.
    """

    size: TaskSize | None  # None when the settings no longer have its size
    on_lambda: bool
    spot: bool
    task_s: float
    by_ecs: bool
    beats: int
    puts: int

    @property
    def transitions(self) -> int:
        return _TRANSITIONS + _TRANSITIONS_PER_BEAT * self.beats


def usage(
    record: AttemptRecord, output: CommittedOutput | None, settings: RuntimeSettings, now: datetime
) -> Usage:
    """The use of an attempt until now; `output`: what it committed."""
    attempt = record.attempt
    begin = attempt.task_from or attempt.claimed_at
    end = attempt.task_until or record.ended_at or now
    sizes = {str(name): size for name, size in settings.tasks.sizes.items()}
    return Usage(
        size=sizes.get(record.size),
        on_lambda=record.size == SIZE,
        spot=record.capacity == "FARGATE_SPOT" and record.size != SIZE,
        task_s=max(0.0, (end - begin).total_seconds()) if attempt.task_arn else 0.0,
        by_ecs=None not in (attempt.task_arn, attempt.task_from, attempt.task_until),
        beats=attempt.beats + attempt.hand_overs,
        puts=_REQUEST_PUTS + (_puts_of(output) if output else 0),
    )


def _puts_of(output: CommittedOutput) -> int:
    """Create, parts and complete for each file, and the manifest of each output."""
    return sum(
        2 * each.files + max(each.files, -(-each.size_bytes // _PART_BYTES)) + 1
        for each in output.by_name.values()
    )
