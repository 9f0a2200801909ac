"""One attempt of one job, from its first write to its outcome.

register ──► plan ──► bring inputs ──► prepare ──► run ──► upload, pending ──► commit ──► publish
   │          └───── progress every few seconds; the row says when to stop ──────┘
   └ not ours: exit 73, nothing written
"""

import logging
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from longhaul.core import transitions
from longhaul.core.aws_errors import is_denied
from longhaul.core.errors import LeaseChangedError, NotDeletedError
from longhaul.core.job_kinds import JobKind
from longhaul.core.lease import (
    AttemptId,
    CommittedOutput,
    Lease,
    RecordedResult,
    emitted_ref,
)
from longhaul.core.places import DataPath, input_of
from longhaul.core.policy import require_file_readable
from longhaul.core.ports import Background, Clock, Leases, Requests
from longhaul.core.request import JobRequest, read_request
from longhaul.core.results import Results, kept_value, results
from longhaul.core.settings import JobVariables, RuntimeSettings, Stage
from longhaul.core.verdict import ExitCode, OutcomeClass
from longhaul.outputs.lineage import origin
from longhaul.outputs.pending import Publisher
from longhaul.pipelines.follow_ons import with_stored
from longhaul.runner import failures, json_logs
from longhaul.runner.emitting import Emitter
from longhaul.runner.failures import Failure, needed_by_each_job
from longhaul.runner.inputs import Inputs
from longhaul.runner.io.destinations import Destination, destinations_of
from longhaul.runner.io.listing import InputListing, digests_of_files
from longhaul.runner.io.saved_files import S3Objects
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.work_area import WorkArea
from longhaul.runner.io.written import require_closed, require_written
from longhaul.runner.loading import FoundJob, LoadedJob, fetch_code
from longhaul.runner.masking import NO_MASK, Mask
from longhaul.runner.reporting import Effort, Phase, Progress, Reporter, stop_as_refused
from longhaul.runner.running_job import RunningJob
from longhaul.runner.saving import LeaseRecords, Saving
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.stopping import (
    TERMINATED,
    Stop,
    StopReason,
    end_with_children,
    unwind_s,
    use_grace,
)
from longhaul.runner.task import Task
from longhaul.runner.variables import SecretValues, give_to_process, read_variables
from longhaul.saved.record import TableRead, Work, job_prefix
from longhaul.saved.store import S3SavedWork

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

    from longhaul.outputs.iceberg.catalog import Tables
    from longhaul.runner.io.table_inputs import TablePlanner

# Step Functions' own timeout comes first; this one is for the day when it cannot stop the task.
_DEADLINE_MARGIN_S: Final = 30

logger = logging.getLogger(__name__)


FindJob = Callable[[str, Callable[[str], Path]], FoundJob]
"""`longhaul.runner.loading.find_job`."""


class Spark(Protocol):
    """What runs the job of one attempt: Spark, which boots while the inputs are listed.

    A stop of the attempt makes it fail what it is doing.
    """

    @property
    def version(self) -> str:
        """Spark's: what is stored is of no use to another."""

    def begin(self, kind: JobKind) -> None:
        """Begin to boot, if a job of this kind needs it. May be called again.

        Raises:
            PermanentJobError: a job of this kind cannot run here.
        """

    def await_session(self, input_bytes: int = 0) -> None:
        """Wait until it can run a job with so large an input; 0: its size is not known yet."""

    def run(self, loaded: LoadedJob, job: RunningJob[Any]) -> None:
        """Run the job to its end, in the calling thread, and end Spark. Raises what it raises."""

    def sample(self) -> SparkSample:
        """How far the job is."""


@dataclass(frozen=True)
class _Planned:
    """What an attempt is to do, as it is known before anything comes."""

    lease: Lease
    stage: Stage
    request: JobRequest
    destinations: Mapping[str, Destination]
    variables: Mapping[str, str]
    found: FoundJob
    work: Work
    records: LeaseRecords


@dataclass
class AttemptRunner:
    """Carries out one attempt.

    `run` returns the exit code. Everything else that is known of the attempt is in its row.
    """

    id: AttemptId
    settings: RuntimeSettings
    task: Task
    clock: Clock
    background: Background
    leases: Leases
    # Also the leases, through a client that gives up soon: the next report says more than a late
    # one.
    reports: Leases
    requests: Requests
    publisher: Publisher
    s3: "S3Client"
    scratch: Path
    area: WorkArea
    spark: Spark
    effort: Callable[[], Effort]  # what the attempt's processes did since the last call
    find_job: FindJob
    # What the jobs of each stage find in their environment; stages without any are not there.
    variables: Mapping[str, JobVariables]
    secret_values: SecretValues
    stop: Stop = field(default_factory=Stop)
    progress: Progress = field(default_factory=Progress)
    # Makes them on first use; None: an engine that reads and writes no tables.
    tables: "Callable[[], Tables] | None" = None
    new_seal: Callable[[], str] = field(default=partial(secrets.token_hex, 16))
    give: Callable[[Mapping[str, str], Mask], None] = give_to_process
    _mask: Mask = NO_MASK
    _may_be_committed: bool = False
    _step_ended_at: datetime | None = None

    def run(self) -> ExitCode:
        """Do the work.

        Nothing is raised: a failure is recorded in the row, and its class is in the exit code.
        """
        try:
            lease = self.leases.report(
                transitions.register_task(self.id, self.task.arn, self.clock.now())
            )
        except LeaseChangedError:
            logger.warning("another task or attempt owns this job: nothing to do")
            return ExitCode.SUPERSEDED
        except (ClientError, BotoCoreError) as error:
            logger.exception("could not register: nothing was begun")
            # The row cannot say so: settle goes by the exit code.
            is_denial = isinstance(error, ClientError) and is_denied(error)
            return ExitCode.DENIED if is_denial else ExitCode.INTERRUPTED
        self._step_ended_at = self.clock.now()
        if lease.label:
            json_logs.add_label(lease.label)
        reporter = self._reporter(lease.stall_timeout_s)
        try:
            with self._deadline(lease.input.timeout_s), reporter.reporting():
                # Else committed already, by a task that died before it could publish.
                just_committed = lease.attempt.output is None
                if just_committed:
                    self._work(lease, reporter)
                self._publish(just_committed=just_committed)
        # SystemExit: of a module that exits while it is imported.
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the one place where whatever went wrong becomes an outcome
            return self._fail(error)
        finally:
            self._clear()
        self._log_step("job done")
        return ExitCode.OK

    def _log_step(self, step: str, **found: object) -> None:
        """Log a step that went well, and how long it took since the one before."""
        now = self.clock.now()
        seconds = round((now - (self._step_ended_at or now)).total_seconds(), 1)
        self._step_ended_at = now
        logger.info(step, extra={**found, "seconds": seconds})

    def record(self, failure: Failure) -> None:
        """Record how the attempt failed. If that fails too, settle goes by the exit code."""
        if failure.kind is OutcomeClass.SUPERSEDED:
            return
        try:
            self.leases.report(
                transitions.record_result(
                    self.id,
                    RecordedResult(self.id.attempt, failure.kind.value, failure.error),
                )
            )
        except LeaseChangedError:
            logger.info("result not recorded: the output is committed, or the lease is lost")
        except (ClientError, BotoCoreError) as error:
            logger.warning("result not recorded", extra={"error": type(error).__name__})

    def end_when_stopped(self, end_process: Callable[[int], None] = end_with_children) -> None:
        """Once a stop is requested, end the process after a grace period.

        An attempt that unwinds in time has ended the process itself by then.
        """
        grace_s = unwind_s(self.settings.lease.stop_timeout_s)

        def end() -> None:
            end_process(self.record_stop())

        def end_soon() -> None:
            self.background.after(grace_s, end)

        self.stop.on_request(end_soon)

    def record_stop(self) -> ExitCode:
        """Record that the attempt was stopped, in the place of a `run` that does not unwind."""
        failure = failures.of_stop(self.stop, self._mask)
        logger.warning("did not unwind in time: ending now", extra={"outcome": failure.kind.value})
        self.record(failure)
        return failure.exit_code

    def _work(self, lease: Lease, reporter: Reporter) -> None:
        """The phases up to the commit."""
        planned = self._plan(lease)
        inputs, loaded = self._bring(planned)
        job = self._prepare(planned, inputs, loaded, reporter)
        self._run_to_end(loaded, job, reporter)
        self._commit(planned.destinations, job, inputs)

    def _plan(self, lease: Lease) -> _Planned:
        """What is to be done, and with what; Spark begins to boot."""
        stage = self.settings.stage_or_removed(lease.stage)
        # The run's claim has checked it: a deploy since may allow less.
        with needed_by_each_job("its request"):
            request = self._request(lease)
        destinations = destinations_of(
            request, stage, self.id, self.s3, self.tables, again=lease.again
        )
        for each in destinations.values():
            each.require_room()
        variables = self._take_variables(lease.stage)
        # The claim's job: a deploy may have changed the stage's default since.
        found = self.find_job(lease.input.job or request.job or "", self._fetch)
        self.spark.begin(found.kind)
        work = Work(lease.fingerprint, self.spark.version, found.code)
        saved = S3SavedWork(self.s3, self.settings.paths.data_bucket)
        records = LeaseRecords(self.leases, saved, self.id, lease.saved_ref, self.clock)
        return _Planned(lease, stage, request, destinations, variables, found, work, records)

    def _bring(self, planned: _Planned) -> tuple[Inputs, LoadedJob]:
        """Bring the inputs to where the job reads them, beside Spark's boot, and load the job."""
        request, found = planned.request, planned.found
        load = partial(found.load, request.params, self.spark.await_session)
        # A module that waits for Spark is imported when the inputs are there.
        loaded = None if found.needs_session else load()
        bucket = self.settings.paths.data_bucket
        paths = {name: input_of(text) for name, text in request.inputs.items()}
        files = partial(digests_of_files, InputListing(self.s3, bucket), paths)
        pinned = planned.records.pinned(planned.work, files)
        listing = InputListing(self.s3, bucket, self._planner_of(planned.stage, pinned))
        staged = self.area.stage(listing, paths, self._moving(Phase.STAGING))
        loaded = loaded or load()
        size = sum(each.size_bytes for each in staged.values())
        if found.kind is not JobKind.PLAIN:
            self.spark.await_session(size)
        self.stop.check()
        self._log_step("ready to run", inputs=len(staged), bytes_staged=size)
        return Inputs(paths, staged, listing), loaded

    def _prepare(
        self, planned: _Planned, inputs: Inputs, loaded: LoadedJob, reporter: Reporter
    ) -> RunningJob[Any]:
        """What the job's code gets, with what was saved before; and its grace at a stop."""
        self.progress.enter(Phase.RUNNING)
        lease, destinations = planned.lease, planned.destinations
        known = inputs.known_to(planned.work)
        # A job may have stored something although this attempt begins from nothing.
        begins_afresh = planned.request.afresh and lease.saved_ref is None
        why_nothing = "the request begins afresh" if begins_afresh else None
        saving = self._saving(planned.records, known, why_nothing)
        job: RunningJob[Any] = RunningJob(
            loaded.params,
            inputs.staged,
            self.area.output,
            Emitter(self.settings, planned.stage, lease),
            saving,
            table=destinations[""].table,
            outputs={name: each.table for name, each in destinations.items() if name},
            id=lease.job_id,
            run=self.id.run,
            attempt=self.id.attempt,
            key=f"{self.id.key_hash}-{self.id.run}",
            deadline=(lease.attempt.started_at or self.clock.now())
            + timedelta(seconds=lease.input.timeout_s),
            every=self.background.every,
            reports=self.scratch / "reports",
            parents_now=inputs.parents,
            variables=planned.variables,
            is_plain=planned.found.kind is JobKind.PLAIN,
        )
        self.stop.before_end = partial(
            use_grace,
            job,
            reporter.report,
            self.stop,
            self.settings.lease.stop_timeout_s,
            self.background,
            self.clock,
        )
        return job

    def _moving(self, phase: Phase) -> Moving:
        """The bytes that come or go in a phase."""
        return Moving(self.stop, partial(self.progress.enter, phase), self.progress.advance)

    def _run_to_end(self, loaded: LoadedJob, job: RunningJob[Any], reporter: Reporter) -> None:
        """Run the job, and see that it has done all of its work."""

        def run(session: "SparkSession", running: RunningJob[Any]) -> None:
            loaded.run(session, running)
            seen = self.spark.sample()
            rows = results(None, running.rows, {}).rows
            self._log_step("the job ran", rows_read=seen.rows_read, rows_written=rows)
            require_closed(running.output_folder)

        try:
            self.spark.run(replace(loaded, run=run), job)
        finally:
            job.has_ended = True
            reporter.report_take_over()
        if job.knows_of_stop:  # it has not done all of its work
            self.stop.request(StopReason.TERMINATED, TERMINATED)
        self.stop.check()
        # A job that emits may write nothing else.
        emits = job.emitter.requests is not None
        require_written(job.written, job.outputs, main_may_be_empty=emits)

    def _take_variables(self, stage: str) -> Mapping[str, str]:
        """Give the job what its stage has for its environment, with secrets as they are now.

        Raises:
            SecretUnreadableError: a secret is denied or not there.
        """
        own = self.variables.get(stage)
        if own is None:
            return {}
        variables, self._mask = read_variables(own, self.secret_values)
        self.progress.mask = self._mask
        self.give(variables, self._mask)
        return variables

    def _saving(self, records: LeaseRecords, work: Work, why_nothing: str | None) -> Saving:
        """What is stored for the next attempt, with what is taken over from those before."""
        bucket = self.settings.paths.data_bucket
        objects = S3Objects(self.s3, bucket, job_prefix(self.id.key), self.background)
        saving = Saving(
            records=records,
            files=self.area.saved_files(objects),
            objects=objects,
            attempt=self.id,
            work=work,
            folder=self.scratch / "folders",
            clock=self.clock,
            stop=self.stop,
            progress=self.progress,
        )
        saving.begin(why_nothing)
        return saving

    def _planner_of(
        self, stage: Stage, pinned: Mapping[str, TableRead]
    ) -> "Callable[[], TablePlanner] | None":
        tables = self.tables
        if tables is None:
            return None

        def make() -> "TablePlanner":
            from longhaul.runner.io.table_inputs import TablePlanner  # noqa: PLC0415 - takes a third of a second

            # The claim has checked the table. Its metadata may name files anywhere.
            return TablePlanner(
                tables(), lambda place: require_file_readable(place, self.settings, stage), pinned
            )

        return make

    def _request(self, lease: Lease) -> JobRequest:
        body = self.requests.get(lease.request_ref).body
        request = read_request(body, self.settings.paths)
        if request.lineage is None or request.lineage.inputs_ref is None:
            return request
        return with_stored(request, self.requests.get_inputs(request.lineage.inputs_ref) or {})

    def _clear(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        try:
            self.area.clear()
        except (ClientError, BotoCoreError, NotDeletedError) as error:  # what is left expires
            logger.warning("work area not cleared", extra={"error": type(error).__name__})

    def _fetch(self, job: str) -> Path:
        return fetch_code(self.s3, DataPath.of(job), self.scratch / "code")

    def _send(
        self,
        destinations: Mapping[str, Destination],
        job: RunningJob[Any],
        inputs: Inputs,
        found: Results,
    ) -> CommittedOutput:
        """Upload what the job wrote, ready to be committed."""
        plans = {
            name: each.plan([one for one in job.written if one.output == name], inputs.listing)
            for name, each in destinations.items()
        }
        bucket, moving = self.settings.paths.data_bucket, self._moving(Phase.PUBLISHING)
        uploader = Uploader(self.s3, bucket, moving, self.background)
        made_from = origin(self.id, self.clock.now(), inputs.reads())
        return uploader.send(plans.pop(""), plans, results=found, origin=made_from)

    def _commit(
        self,
        destinations: Mapping[str, Destination],
        job: RunningJob[Any],
        inputs: Inputs,
    ) -> None:
        # First of all: from here on nothing of the job runs, and a wait for S3 is not its fault.
        self.progress.enter(Phase.PUBLISHING)
        found = results(self._masked(job.result), job.rows, job.metrics)
        if found.problem:
            # Not what it returned: a log has none of a job's data that the job does not print.
            logger.warning("what the job returned is not kept: %s", found.problem)
        output = self._send(destinations, job, inputs, found)
        output = replace(output, seal=self.new_seal(), results=found or None)
        if job.emitter.requests is not None:
            sizes = {stage: len(found) for stage, found in job.emitter.requests.items()}
            output = replace(output, emitted=sizes)
            self.requests.put_emitted(emitted_ref(self.id), job.emitter.requests)
        files, size = output.files, output.size_bytes
        self._log_step("output sent", files_written=files, bytes_written=size)
        self.stop.check()
        for each in destinations.values():
            each.require_room()
        self._may_be_committed = True
        try:
            with needed_by_each_job("the commit"):
                self.leases.report(transitions.commit(self.id, output))
        except LeaseChangedError as error:
            self._may_be_committed = False
            stop_as_refused(self.stop, error, self.id)
            raise

    def _masked(self, result: object) -> object:
        """What the job returned, without its stage's secrets."""
        kept, problem = kept_value(result)
        return result if problem else self._mask.document(kept)

    def _publish(self, *, just_committed: bool) -> None:
        self._may_be_committed = True
        self.publisher.publish(self.id, just_committed=just_committed)
        try:
            self.leases.report(transitions.mark_published(self.id, self.clock.now()))
        except LeaseChangedError:
            logger.info(
                "published; the lease was settled meanwhile, and settle publishes what is committed"
            )

    def _fail(self, error: Exception | SystemExit) -> ExitCode:
        failure = (
            failures.of_stop(self.stop, self._mask)
            if self.stop.requested
            else failures.of_error(error, self._mask)
        )
        # The row's text: brief, and without the stage's secrets.
        logger.error(
            "attempt failed: %s",
            failure.error,
            exc_info=error,
            extra={"outcome": failure.kind.value, "exit_code": int(failure.exit_code)},
        )
        self.record(failure)
        if not self._may_be_committed:
            try:
                self.publisher.discard(self.id)
            except (ClientError, BotoCoreError) as trouble:  # settle does it again
                logger.warning(
                    "pending uploads not aborted", extra={"error": type(trouble).__name__}
                )
        return failure.exit_code

    @contextmanager
    def _deadline(self, timeout_s: int) -> Iterator[None]:
        def expire() -> None:
            self.stop.request(StopReason.DEADLINE, f"ran longer than its timeout of {timeout_s} s")

        timer = self.background.after(timeout_s + _DEADLINE_MARGIN_S, expire)
        try:
            yield
        finally:
            timer.cancel()

    def _reporter(self, stall_timeout_s: int) -> Reporter:
        return Reporter(
            leases=self.reports,
            attempt=self.id,
            clock=self.clock,
            background=self.background,
            stop=self.stop,
            progress=self.progress,
            timing=self.settings.lease,
            stall_timeout_s=stall_timeout_s,
            sample=self.spark.sample,
            effort=self.effort,
        )
