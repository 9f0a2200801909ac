"""Sends trials, disturbs them, and reads their rows until each has ended or is late."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from longhaul.cli.acceptance.cases import Disturbance, Trial
from longhaul.cli.acceptance.legs import Expectations
from longhaul.domain.lease import Lease, State
from longhaul.domain.message import Message
from longhaul.operations.cancel import Canceller
from longhaul.operations.dead_letters import DeadLetterOffice, Which
from longhaul.operations.find import Jobs
from longhaul.ports import Clock, Executions, JobQueue, Leases, Tasks

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

LOOK_S: Final = 1.0
# Looking hides all letters of the queue from others for a moment.
_LETTERS_EVERY: Final = timedelta(seconds=5)
_REASON: Final = "longhaul verify"
_WORKING: Final = "running"  # the runner's word for the job's own code


@dataclass
class Observed:
    """A trial, and what was seen of it. Times are by this machine's clock."""

    trial: Trial
    sent_at: datetime
    late_at: datetime
    row: Lease | None = None
    relatives: Sequence[Lease] = ()
    letters: tuple[str, ...] = ()  # classes of its dead letters
    disturbed_at: datetime | None = None
    gone_at: datetime | None = None  # its message was deleted
    relatives_gone_at: dict[str, datetime] = field(default_factory=dict)
    is_over: bool = False
    is_late: bool = False

    @property
    def rows(self) -> list[Lease]:
        return [*([self.row] if self.row else []), *self.relatives]


class Disturber(Protocol):
    def disturb(self, row: Lease, how: Disturbance) -> None: ...


@dataclass(frozen=True)
class Hands:
    """Does to a running attempt what an operator or the platform would."""

    canceller: Canceller
    tasks: Tasks
    executions: Executions
    stepfunctions: "SFNClient"

    def disturb(self, row: Lease, how: Disturbance) -> None:
        match how:
            case Disturbance.CANCEL:
                self.canceller.cancel(row.stage, row.job_id)
            case Disturbance.STOP_TASK:
                self.tasks.stop(str(row.attempt.task_arn), row.id, _REASON)
            case Disturbance.STOP_EXECUTION:
                arn = self.executions.arn(row.id.execution_name)
                self.stepfunctions.stop_execution(executionArn=arn, cause=_REASON)


@dataclass
class Watcher:
    clock: Clock
    leases: Leases
    jobs: Jobs
    queue: JobQueue
    letters: DeadLetterOffice
    hands: Disturber
    expectations: Expectations
    on_change: Callable[[Observed], None] = lambda _: None
    seen: list[Observed] = field(default_factory=list)
    """All trials that were sent, also when `watch` is interrupted."""
    _looked_at_letters: datetime | None = None

    def watch(self, trials: Iterable[Trial], at_once: int) -> Iterator[Observed]:
        """Send the trials, at most so many unfinished ones at a time; yield each when it is over.

        `trials` is read as room becomes free.
        """
        waiting = iter(trials)
        going: list[Observed] = []
        while True:
            while len(going) < at_once and (trial := next(waiting, None)) is not None:
                going.append(self._send(trial))
            if not going:
                return
            self._look(going)
            yield from (each for each in going if each.is_over)
            going = [each for each in going if not each.is_over]
            if going:
                self.clock.sleep(LOOK_S)

    def _send(self, trial: Trial) -> Observed:
        now = self.clock.now()
        patience = timedelta(seconds=self.expectations.whole_s(trial.case))
        observed = Observed(trial, now, now + patience)
        self.seen.append(observed)
        for _ in range(trial.case.copies):
            self.queue.send(trial.stage.queue_url, Message(trial.body, {}))
        self.on_change(observed)
        return observed

    def _look(self, going: Sequence[Observed]) -> None:
        rows = self.leases.load_many(each.trial.key for each in going)
        for each in going:
            self._take(each, rows.get(each.trial.key))
        self._look_for_letters(going)
        now = self.clock.now()
        for each in going:
            each.is_over = self._has_ended(each)
            if not each.is_over and now >= each.late_at:
                each.is_over = each.is_late = True

    def _take(self, observed: Observed, row: Lease | None) -> None:
        """Note what the row says, and disturb the attempt once it works."""
        before, observed.row = observed.row, row
        if row is None:
            return
        if row.is_finished and observed.gone_at is None:
            observed.gone_at = self.clock.now()
        how = observed.trial.case.disturbance
        if how is not None and observed.disturbed_at is None and _works(row):
            observed.disturbed_at = self.clock.now()
            self.hands.disturb(row, how)
        if observed.trial.case.members and row.is_finished:
            self._look_at_relatives(observed, row)
        if before is None or _moment(before) != _moment(row):
            self.on_change(observed)

    def _look_at_relatives(self, observed: Observed, row: Lease) -> None:
        now = self.clock.now()
        observed.relatives = sorted(self.jobs.related(row), key=lambda each: each.run)
        for each in observed.relatives:
            if each.is_finished:
                observed.relatives_gone_at.setdefault(each.key, now)

    def _look_for_letters(self, going: Sequence[Observed]) -> None:
        """Find the dead letters of trials that should have one and do not need anything else."""
        missing = [each for each in going if _awaits_letter(each)]
        now = self.clock.now()
        if not missing or (
            self._looked_at_letters is not None and now < self._looked_at_letters + _LETTERS_EVERY
        ):
            return
        self._looked_at_letters = now
        for stage in {each.trial.stage.name: each.trial.stage for each in missing}.values():
            by_job_id = {each.trial.job_id: each for each in missing if each.trial.stage == stage}
            with closing(self.letters.look(stage, Which(names=tuple(by_job_id)))) as letters:
                for letter in letters:
                    if letter.job_id in by_job_id:
                        by_job_id[letter.job_id].letters += (letter.kind,)

    def _has_ended(self, observed: Observed) -> bool:
        case = observed.trial.case
        if case.letter is not None and not observed.letters:
            # Unless it has ended in another way: then none will come.
            return observed.row is not None and (
                observed.row.is_finished and observed.row.state is not State.DEAD
            )
        if observed.row is None or not observed.row.is_finished:
            return False
        # The members, and the job that joins them; what died leads nowhere.
        family = observed.relatives
        if not case.members or observed.row.state is not State.SUCCEEDED:
            return True
        if any(each.is_finished and each.state is not State.SUCCEEDED for each in family):
            return True
        return len(family) == case.members + 1 and all(each.is_finished for each in family)


def _works(row: Lease) -> bool:
    """Whether the job's own code runs in the first attempt."""
    attempt = row.attempt
    return (
        row.state is State.RUNNING
        and attempt.number == 1
        and attempt.task_arn is not None
        and attempt.progress.get("phase") == _WORKING
    )


def _awaits_letter(observed: Observed) -> bool:
    case, row = observed.trial.case, observed.row
    if case.letter is None or observed.letters:
        return False
    return row is not None and row.is_finished


def _moment(row: Lease) -> tuple[object, ...]:
    return (row.state, row.attempt.number, row.attempt.task_arn, row.is_finished)
