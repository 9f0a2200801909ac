"""What the trials left: whether anything goes on, and what is cleared away."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError
from pydantic import ValidationError

from longhaul.adapters.errors import code_of
from longhaul.cli.acceptance.cases import table_name
from longhaul.cli.acceptance.verdicts import Result, Verdict
from longhaul.cli.acceptance.watcher import LOOK_S, Observed
from longhaul.cli.tables.reader import TableReader, current
from longhaul.domain.lease import AttemptId, Lease
from longhaul.domain.manifest import MAIN, MANIFEST, Manifest
from longhaul.domain.paths import DataPath
from longhaul.domain.tables import TablePath, is_table, place_of
from longhaul.operations.cancel import Canceller
from longhaul.operations.dead_letters import DeadLetterOffice, Which
from longhaul.operations.find import Jobs
from longhaul.operations.stage_counts import StageCounter
from longhaul.ports import Clock, Executions
from longhaul.settings import LeaseSettings, Stage

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NAME: Final = "nothing left"
_WHAT: Final = "what goes on or waits once all jobs have ended"
_EXPECTED: Final = "no execution runs, no message waits"
# SQS's counts are approximate, and reach their values within a minute once the queue is quiet.
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html
_COUNTS_SETTLE_S: Final = 90
_DELETE_AT_ONCE: Final = 1000  # S3's limit


@dataclass(frozen=True)
class Quiet:
    """Which stages had no message and no unfinished job before the first trial."""

    stages: tuple[str, ...]


@dataclass(frozen=True)
class Remains:
    clock: Clock
    jobs: Jobs
    counter: StageCounter
    executions: Executions
    letters: DeadLetterOffice
    canceller: Canceller
    s3: "S3Client"
    tables: TableReader
    bucket: str  # for data
    timing: LeaseSettings

    def quiet(self, stages: Iterable[Stage]) -> Quiet:
        return Quiet(tuple(each.name for each in stages if not self._waiting(each)))

    def look(self, rows: Sequence[Lease], stages: Sequence[Stage], before: Quiet) -> Result:
        """Wait a little for the last beats and for SQS's counts, and say what is left then.

        Messages are looked at only in stages that were quiet before: those of others cannot be
        told from ours.
        """
        # The heartbeat branch ends at the beat after its job has settled.
        patience_s = max(_COUNTS_SETTLE_S, 2 * self.timing.beat_ceiling_s)
        quiet = [each for each in stages if each.name in before.stages]
        attempts = [
            AttemptId(row.key, row.run, number)
            for row in rows
            for number in range(1, row.attempt.number + 1)
        ]
        ends = self.clock.now().timestamp() + patience_s
        while True:
            attempts = [each for each in attempts if self._runs(each)]
            waiting = [f"{n} in stage {each.name}" for each in quiet if (n := self._waiting(each))]
            if not (attempts or waiting) or self.clock.now().timestamp() >= ends:
                break
            self.clock.sleep(LOOK_S)
        remains = [f"{each.execution_name} runs" for each in attempts]
        remains += [f"messages or jobs wait: {each}" for each in waiting]
        others = [each.name for each in stages if each.name not in before.stages]
        note = f"; messages not counted where other jobs are: {', '.join(others)}" if others else ""
        return Result(
            _NAME,
            _WHAT,
            _EXPECTED,
            ("; ".join(remains) or _EXPECTED) + note,
            Verdict.FAILED if remains else Verdict.PASSED,
            do="`longhaul status` and `longhaul check` say what they belong to" if remains else "",
        )

    def rows_of(self, rows: Iterable[Lease]) -> dict[str, int]:
        """The rows of each job's published output, by key, for jobs that published one."""
        found = {}
        for row in rows:
            output = row.attempt.output
            if output is None or not output.files:
                continue
            if is_table(output.prefix):
                found[row.key] = self._rows_of_table(TablePath.of(output.prefix))
                continue
            place = DataPath.prefix_of(output.prefix)
            try:
                body = self.s3.get_object(Bucket=place.bucket, Key=f"{place.key}{MANIFEST}")["Body"]
                found[row.key] = Manifest.model_validate_json(body.read()).rows.get(MAIN, 0)
            except ClientError as error:
                if code_of(error) not in ("NoSuchKey", "404"):
                    raise
            except ValidationError:
                found[row.key] = -1  # there, and no manifest of ours
        return found

    def stop(self, trials: Iterable[Observed]) -> int:
        """Cancel what has not ended, the follow-ons too; returns how many that were."""
        count = 0
        for each in trials:
            if each.is_over and not each.is_late:
                continue
            count += 1
            self.canceller.cancel(each.trial.stage.name, each.trial.job_id)
            for row in self.jobs.related(each.row) if each.row else ():
                if not row.state.is_terminal:
                    self.canceller.cancel(row.stage, row.job_id)
        return count

    def clear(self, trials: Sequence[Observed]) -> None:
        """Delete the dead letters and outputs of the trials. Their rows expire by themselves."""
        dead = [each for each in trials if each.letters or each.trial.case.letter]
        for stage in {each.trial.stage.name: each.trial.stage for each in dead}.values():
            names = tuple(each.trial.job_id for each in dead if each.trial.stage == stage)
            self.letters.drop(stage, Which(names=names))
        for row in [row for each in trials for row in each.rows]:
            if row.attempt.output is None:
                continue
            output = row.attempt.output.prefix
            place = DataPath.prefix_of(place_of(output, self.bucket))
            # Every output of ours ends with its job's id: nothing else is ever deleted.
            if is_table(output):
                table = TablePath.of(output)
                if table.name == table_name(row.job_id):
                    self.tables.delete(table.database, table.name)
                    self._delete_below(place)
            elif place.key.endswith(f"/{row.job_id}/"):
                self._delete_below(place)

    def _rows_of_table(self, path: TablePath) -> int:
        """What a reader finds in the catalog; -1 without a table."""
        entry = self.tables.look(path.database, path.name)
        version = current(self.tables.metadata(entry)) if entry else None
        return version.rows if version else -1

    def _delete_below(self, place: DataPath) -> None:
        keys = list(self._keys(place))
        for first in range(0, len(keys), _DELETE_AT_ONCE):
            page = keys[first : first + _DELETE_AT_ONCE]
            self.s3.delete_objects(
                Bucket=place.bucket,
                Delete={"Objects": [{"Key": key} for key in page], "Quiet": True},
            )

    def _keys(self, place: DataPath) -> Iterator[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=place.bucket, Prefix=place.key
        )
        for page in pages:
            yield from (each["Key"] for each in page.get("Contents", []))

    def _runs(self, attempt: AttemptId) -> bool:
        return self.executions.status(attempt.execution_name) == "RUNNING"

    def _waiting(self, stage: Stage) -> int:
        """Messages and unfinished jobs of the stage."""
        begun = len(self.jobs.unfinished([stage.name]))
        return self.counter.count(stage, begun).queued + begun
