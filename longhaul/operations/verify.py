"""A run of the cases in a deployed stack: sent, disturbed, watched, judged, and cleared away."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.lease import Lease, State, job_key
from longhaul.core.message import Message
from longhaul.core.places import DataPath, TablePath, place_of
from longhaul.core.settings import Stage
from longhaul.operations.dead_letters import Which
from longhaul.operations.stack import Stack
from longhaul.operations.verify_cases import Case, Disturbance, body, cases_of, output_of

_LOOK_S: Final = 1.0
_REASON: Final = "longhaul verify"
# A new account may run as few as 4 vCPU.
_AT_ONCE: Final = 4
# Two starts of ten minutes each, as `start_timeout_s` has it, and what a next attempt waits for.
_PATIENCE: Final = timedelta(minutes=30)
_WORKING: Final = "running"  # the runner's word for the job's own code


@dataclass
class Trial:
    """A case that was sent, and what was seen of it."""

    case: Case
    job_id: str
    sent_at: datetime
    row: Lease | None = None
    is_disturbed: bool = False
    is_late: bool = False

    @property
    def has_ended(self) -> bool:
        """With nothing owed: its message is deleted."""
        return self.row is not None and self.row.is_finished

    @property
    def works(self) -> bool:
        """Whether the job's own code runs in the first attempt."""
        if self.row is None or self.row.state is not State.RUNNING:
            return False
        attempt = self.row.attempt
        return (
            attempt.number == 1
            and attempt.task_arn is not None
            and attempt.progress.get("phase") == _WORKING
        )


@dataclass(frozen=True)
class Result:
    case: str
    expected: str
    happened: str
    is_good: bool
    do: str = ""  # the way out, where there is one

    @property
    def verdict(self) -> str:
        return "passed" if self.is_good else "failed"


class Run:
    """One run of the command, with a name that all its jobs share."""

    def __init__(self, stack: Stack, stage: Stage, say: Callable[[str], None]) -> None:
        parts = stack.parts
        self._stack, self._stage, self._say = stack, stage, say
        self._settings, self._clock = stack.settings, parts.clock
        self._s3 = stack.client("s3")
        self._name = f"verify-{parts.clock.now():%Y%m%d-%H%M%S}-{parts.rng.getrandbits(24):06x}"
        self._trials: list[Trial] = []
        """All that were sent, also when the run is interrupted."""

    def results(self) -> list[Result]:
        self._watch(iter(cases_of(self._settings)))
        self._stop()
        letters = self._letters()
        return [
            judged(each, letters.get(each.job_id, ()), has_output=any(self._stored(each)))
            for each in self._trials
        ]

    def close(self) -> None:
        """Cancel what runs, and delete the dead letters and outputs. Their rows expire."""
        self._stop()
        if names := tuple(each.job_id for each in self._trials):
            list(self._stack.dead_letters.drop(self._stage, Which(names=names)))
        for each in self._trials:
            if each.case.to_table:
                self._drop_table(TablePath.of(output_of(each.case, each.job_id, self._settings)))
            for found in self._stored(each):
                self._s3.delete_object(**found)

    def _watch(self, waiting: Iterator[Case]) -> None:
        """Send the cases, a few at a time, until each is over or late."""
        going: list[Trial] = []
        while True:
            while len(going) < min(_AT_ONCE, self._stage.slots) and (case := next(waiting, None)):
                going.append(self._send(case))
            if not going:
                return
            rows = self._stack.parts.leases.load_many(self._key(each) for each in going)
            for each in going:
                self._look(each, rows.get(self._key(each)))
                is_late = self._clock.now() >= each.sent_at + _PATIENCE
                each.is_late = is_late and not each.has_ended
            going = [each for each in going if not (each.has_ended or each.is_late)]
            self._clock.sleep(_LOOK_S)

    def _send(self, case: Case) -> Trial:
        trial = Trial(case, f"{self._name}-{case.name}", self._clock.now())
        self._trials.append(trial)
        message = Message(body(case, trial.job_id, self._settings), {})
        for _ in range(case.copies):
            self._stack.parts.queue.send(self._stage.queue_url, message)
        self._say(f"{case.name}: sent")
        return trial

    def _look(self, trial: Trial, row: Lease | None) -> None:
        """Note what the row says, and disturb the first attempt once it works."""
        before, trial.row = trial.row, row
        if row is None:
            return
        if trial.case.disturbance and trial.works and not trial.is_disturbed:
            trial.is_disturbed = True
            self._disturb(row, trial.case.disturbance)
        if before is None or _moment(before) != _moment(row):
            self._say(f"{trial.case.name}: {_moment(row)}")

    def _disturb(self, row: Lease, how: Disturbance) -> None:
        """Do to a running attempt what an operator or the platform would."""
        parts = self._stack.parts
        match how:
            case Disturbance.CANCEL:
                self._stack.canceller.cancel(row.stage, row.job_id)
            case Disturbance.STOP_TASK:
                parts.tasks.stop(str(row.attempt.task_arn), row.id, _REASON)
            case Disturbance.STOP_EXECUTION:
                arn = parts.executions.arn(row.id.execution_name)
                client = self._stack.client("stepfunctions")
                client.stop_execution(executionArn=arn, cause=_REASON)

    def _letters(self) -> dict[str, list[str]]:
        """The kinds of the trials' dead letters, by job id."""
        found: dict[str, list[str]] = {}
        which = Which(names=tuple(each.job_id for each in self._trials))
        with closing(self._stack.dead_letters.look(self._stage, which)) as letters:
            for letter in letters:
                found.setdefault(str(letter.job_id), []).append(letter.kind)
        return found

    def _stop(self) -> None:
        """Cancel what has not ended; a message that comes later starts nothing then."""
        for each in self._trials:
            if not each.has_ended:
                self._stack.canceller.cancel(self._stage.name, each.job_id)

    def _stored(self, trial: Trial) -> Iterator[dict[str, str]]:
        """The objects of its output; by what was asked for, never by what a row says."""
        output = output_of(trial.case, trial.job_id, self._settings)
        place = DataPath.prefix_of(place_of(output, self._settings.paths.data_bucket))
        pages = self._s3.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=place.bucket, Prefix=place.key):
            for each in page.get("Contents", []):
                yield {"Bucket": str(place.bucket), "Key": each["Key"]}

    def _drop_table(self, table: TablePath) -> None:
        try:
            self._stack.client("glue").delete_table(DatabaseName=table.database, Name=table.name)
        except ClientError as error:
            if code_of(error) != "EntityNotFoundException":
                raise

    def _key(self, trial: Trial) -> str:
        return job_key(self._stage.name, trial.job_id)


def _moment(row: Lease) -> str:
    return f"{row.shown_state}, attempt {row.attempt.number}"


def judged(trial: Trial, letters: Sequence[str], *, has_output: bool) -> Result:
    """The result of a trial that is over, by the kinds of its dead letters and the rest."""
    case, row = trial.case, trial.row
    happened = ending(row, letters, has_output=has_output)
    if happened == case.ending and not trial.is_late:
        return Result(case.name, case.ending, happened, is_good=True)
    if trial.is_late:
        happened = f"not over in time: {happened}"
    if row and row.last_error:
        happened = f"{happened} ({row.last_class}: {row.last_error})"
    way_out = (
        f"`longhaul status {trial.job_id} --history` and `longhaul logs` say more; then "
        "docs/operations.md"
    )
    return Result(case.name, case.ending, happened, is_good=False, do=way_out)


def ending(row: Lease | None, letters: Sequence[str], *, has_output: bool) -> str:
    """How a job has ended, in the words of the table of cases."""
    if row is None:
        return "no job"
    counts = (
        (row.attempt.number, "attempt"),
        (row.failures, "failure"),
        (row.interruptions, "interruption"),
    )
    parts = [row.state.value, *(f"{n} {noun}{'s' * (n > 1)}" for n, noun in counts if n)]
    parts += [f"dead letter {kind}" for kind in letters]
    return ", ".join([*parts, "output"] if has_output else parts)
