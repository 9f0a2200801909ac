"""A run of the cases in a deployed stack: sent, disturbed, watched, judged, and cleared away."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Final

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of
from longhaul.cli.acceptance.cases import Case, Disturbance, body, cases_of, output_of
from longhaul.cli.acceptance.results import Result, Trial, judged, usual
from longhaul.cli.target import Target
from longhaul.domain.job_state import shown_state
from longhaul.domain.lease import AttemptId, Lease, State, job_key
from longhaul.domain.manifest import MANIFEST
from longhaul.domain.message import Message
from longhaul.domain.paths import DataPath
from longhaul.domain.tables import TablePath, is_table, place_of
from longhaul.operations.dead_letters import Which
from longhaul.settings import Stage

_LOOK_S: Final = 1.0
_REASON: Final = "longhaul verify"
# A new account may run as few as 4 vCPU.
_AT_ONCE: Final = 4
_WORKING: Final = "running"  # the runner's word for the job's own code
_QUIET: Final = "no execution runs, no message waits"
# SQS's counts are approximate, and reach their values within a minute once the queue is quiet.
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html
_COUNTS_SETTLE_S: Final = 90
_NOT_THERE: Final = ("NoSuchKey", "404", "EntityNotFoundException")


class Run:
    """One run of the command, with a name that all its jobs share."""

    def __init__(self, target: Target, stage: Stage, say: Callable[[str], None]) -> None:
        parts = target.parts
        self._target, self._stage, self._say = target, stage, say
        self._settings, self._clock, self._leases = target.settings, parts.clock, parts.leases
        self._glue, self._s3 = target.client("glue"), target.client("s3")
        self._name = f"verify-{parts.clock.now():%Y%m%d-%H%M%S}-{parts.rng.getrandbits(24):06x}"
        self.trials: list[Trial] = []
        """All that were sent, also when the run is interrupted."""

    @property
    def rows(self) -> list[Lease]:
        return [each.row for each in self.trials if each.row]

    def results(self) -> list[Result]:
        was_quiet = not self._waiting()
        self._watch(iter(cases_of(self._settings)))
        self._stop()
        letters = self._letters()
        attempts = self._leases.history(self.rows)
        results = [
            judged(
                each,
                attempts[each.row.key] if each.row else (),
                letters.get(each.job_id, ()),
                self._settings.lease,
                has_output=self._has_output(each),
            )
            for each in self.trials
        ]
        self._say("waiting for the last executions, and for the queue to be empty")
        results.append(self._nothing_left(was_quiet=was_quiet))
        return results

    def close(self) -> None:
        """Cancel what runs, and delete the dead letters and outputs. Their rows expire."""
        self._stop()
        names = tuple(each.job_id for each in self.trials)
        if names:
            self._target.dead_letters.drop(self._stage, Which(names=names))
        for each in self.trials:
            # By what was asked for, never by what a row says: nothing else is ever deleted.
            self._delete(output_of(each.case, each.job_id, self._settings))

    def _watch(self, waiting: Iterator[Case]) -> None:
        """Send the cases, a few at a time, until each is over or late."""
        timing = self._settings.lease
        # Every step at twice its usual time.
        patience = timedelta(seconds=timing.start_timeout_s + 2 * sum(usual(timing).values()))
        going: list[Trial] = []
        while True:
            while len(going) < min(_AT_ONCE, self._stage.slots) and (case := next(waiting, None)):
                going.append(self._send(case))
            if not going:
                return
            rows = self._leases.load_many(self._key(each) for each in going)
            for each in going:
                self._look(each, rows.get(self._key(each)))
                each.is_late = not each.is_over and self._clock.now() >= each.sent_at + patience
            going = [each for each in going if not each.is_over]
            self._clock.sleep(_LOOK_S)

    def _send(self, case: Case) -> Trial:
        trial = Trial(case, f"{self._name}-{case.name}", self._clock.now())
        self.trials.append(trial)
        message = Message(body(case, trial.job_id, self._settings), {})
        for _ in range(case.copies):
            self._target.parts.queue.send(self._stage.queue_url, message)
        self._say(f"{case.name}: sent")
        return trial

    def _look(self, trial: Trial, row: Lease | None) -> None:
        """Note what the row says, and disturb the first attempt once it works."""
        before, trial.row = trial.row, row
        if row is None:
            return
        if row.is_finished:
            trial.gone_at = self._clock.now()
        if trial.case.disturbance and trial.disturbed_at is None and _works(row):
            trial.disturbed_at = self._clock.now()
            self._disturb(row, trial.case.disturbance)
        if before is None or _moment(before) != _moment(row):
            self._say(f"{trial.case.name}: {shown_state(row)}, attempt {row.attempt.number}")

    def _disturb(self, row: Lease, how: Disturbance) -> None:
        """Do to a running attempt what an operator or the platform would."""
        parts = self._target.parts
        match how:
            case Disturbance.CANCEL:
                self._target.canceller.cancel(row.stage, row.job_id)
            case Disturbance.STOP_TASK:
                parts.tasks.stop(str(row.attempt.task_arn), row.id, _REASON)
            case Disturbance.STOP_EXECUTION:
                arn = parts.executions.arn(row.id.execution_name)
                client = self._target.client("stepfunctions")
                client.stop_execution(executionArn=arn, cause=_REASON)

    def _letters(self) -> dict[str, list[str]]:
        """The kinds of the trials' dead letters, by job id."""
        found: dict[str, list[str]] = {}
        which = Which(names=tuple(each.job_id for each in self.trials))
        with closing(self._target.dead_letters.look(self._stage, which)) as letters:
            for letter in letters:
                found.setdefault(str(letter.job_id), []).append(letter.kind)
        return found

    def _has_output(self, trial: Trial) -> bool:
        """Whether a reader finds an output."""
        output = output_of(trial.case, trial.job_id, self._settings)
        try:
            if is_table(output):
                table = TablePath.of(output)
                self._glue.get_table(DatabaseName=table.database, Name=table.name)
            else:
                place = DataPath.prefix_of(output)
                self._s3.head_object(Bucket=place.bucket, Key=f"{place.key}{MANIFEST}")
        except ClientError as error:
            if code_of(error) not in _NOT_THERE:
                raise
            return False
        return True

    def _nothing_left(self, *, was_quiet: bool) -> Result:
        """Wait for the last beats and for SQS's counts, and say what is left then.

        Messages are looked at only in a stage that was quiet before: those of others cannot be told
        from ours.
        """
        # The heartbeat branch ends at the beat after its job has settled.
        patience_s = max(_COUNTS_SETTLE_S, 2 * self._settings.lease.beat_ceiling_s)
        ends = self._clock.now() + timedelta(seconds=patience_s)
        names = [
            AttemptId(row.key, row.run, number).execution_name
            for row in self.rows
            for number in range(1, row.attempt.number + 1)
        ]
        while True:
            names = [each for each in names if self._runs(each)]
            waiting = self._waiting() if was_quiet else 0
            if not (names or waiting) or self._clock.now() >= ends:
                break
            self._clock.sleep(_LOOK_S)
        left = [f"{each} runs" for each in names]
        left += [f"{waiting} messages or jobs wait"] if waiting else []
        note = "" if was_quiet else f"; stage {self._stage.name} has other jobs: no message counted"
        return Result(
            "nothing left",
            _QUIET,
            ("; ".join(left) or _QUIET) + note,
            is_good=not left,
            do="`longhaul status` and `longhaul check` say what they belong to" if left else "",
        )

    def _stop(self) -> None:
        """Cancel what has not ended; a message that comes later starts nothing then."""
        for each in self.trials:
            if each.gone_at is None:
                self._target.canceller.cancel(self._stage.name, each.job_id)

    def _delete(self, output: str) -> None:
        place = DataPath.prefix_of(place_of(output, self._settings.paths.data_bucket))
        if is_table(output):
            table = TablePath.of(output)
            try:
                self._glue.delete_table(DatabaseName=table.database, Name=table.name)
            except ClientError as error:
                if code_of(error) not in _NOT_THERE:
                    raise
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=place.bucket, Prefix=place.key
        )
        for page in pages:
            for each in page.get("Contents", []):
                self._s3.delete_object(Bucket=place.bucket, Key=each["Key"])

    def _key(self, trial: Trial) -> str:
        return job_key(self._stage.name, trial.job_id)

    def _runs(self, execution: str) -> bool:
        return self._target.parts.executions.status(execution) == "RUNNING"

    def _waiting(self) -> int:
        """Messages and unfinished jobs of the stage."""
        begun = len(self._target.jobs.unfinished([self._stage.name]))
        return self._target.stage_counter.count(self._stage, begun).queued + begun


def _works(row: Lease) -> bool:
    """Whether the job's own code runs in the first attempt."""
    attempt = row.attempt
    return (
        row.state is State.RUNNING
        and attempt.number == 1
        and attempt.task_arn is not None
        and attempt.progress.get("phase") == _WORKING
    )


def _moment(row: Lease) -> tuple[object, ...]:
    return (row.state, row.attempt.number, row.attempt.task_arn, row.is_finished)
