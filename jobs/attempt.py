"""One attempt of one job, from its first write to its outcome.

register ──► stage, while Spark boots ──► run ──► upload, pending ──► commit ──► publish
   │             └──────── progress every few seconds; its answer says when to stop ───────┘
   └ not ours: exit 73, nothing written
"""

import logging
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import SparkSession

from jobs import failures, loading
from jobs.api import Job
from jobs.emitting import Emitter
from jobs.failures import Failure
from jobs.io.code import fetch_code
from jobs.io.existing import require_room
from jobs.io.listing import Listing
from jobs.io.publisher import Uploader
from jobs.io.staging import StagedInput
from jobs.io.work_area import WorkArea
from jobs.io.written import NoOutputError
from jobs.reporting import Phase, Progress, Reporter
from jobs.spark.progress import SparkSample, SparkWatch, Vantage
from jobs.spark.session import shuffle_partitions
from jobs.stopping import Stop, StopReason
from jobs.task import Task
from longhaul.domain.durations import parse_duration_s
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.lease import AttemptId, CommittedOutput, Lease, RecordedResult, emitted_ref
from longhaul.domain.manifest import Manifest
from longhaul.domain.outcome import ExitCode, OutcomeClass
from longhaul.domain.paths import DataPath, parse_input, parse_job, parse_output
from longhaul.domain.request import Mode, parse_request
from longhaul.ports import Clock, LeaseStore, Publisher, RequestStore
from longhaul.settings import RuntimeSettings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Step Functions' own timeout comes first; this one is for the day when it cannot stop the task.
_DEADLINE_MARGIN_S: Final = 30
# Whoever talks to a JVM that dies hears of it before the cause is known.
_CAUSE_WAIT_S: Final = 2.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Destination:
    """Where an output goes, and what about one that is there already."""

    path: DataPath
    mode: Mode
    was_read: Manifest | None = None  # of a job that reads its own output


class Spark(Protocol):
    """What an attempt needs of `jobs.spark.running.RunningSpark`."""

    def session(self) -> SparkSession: ...

    def close(self) -> None: ...


@dataclass
class Attempt:
    """Carries out one attempt. `run` answers the exit code; all else that there is to say is in the lease row."""

    id: AttemptId
    settings: RuntimeSettings
    task: Task
    clock: Clock
    leases: LeaseStore
    # The same for progress, but through a client that gives up soon: the next report says more than a late one.
    reports: LeaseStore
    requests: RequestStore
    publisher: Publisher
    s3: "S3Client"
    scratch: Path
    area: WorkArea
    spark: Spark
    stop: Stop = field(default_factory=Stop)
    progress: Progress = field(default_factory=Progress)
    vantage: Vantage = field(default_factory=Vantage)
    _watch: SparkWatch | None = None
    _may_be_committed: bool = False

    def run(self) -> ExitCode:
        """Do the work. Failures are recorded in the row and told by the exit code; none is raised."""
        try:
            lease = self.leases.register_task(self.id, self.task.arn, self.clock.now())
        except LeaseChangedError:
            logger.warning("another task or attempt owns this job: nothing to do")
            return ExitCode.SUPERSEDED
        except (ClientError, BotoCoreError):
            logger.exception("could not register: nothing was begun")
            return ExitCode.INTERRUPTED
        try:
            with self._deadline(lease.input.timeout_s), self._reporting(lease):
                # Committed already: by a task that did not live to publish. That is then all there is to do.
                self._publish(lease.output or self._commit(*self._work(lease)))
        except Exception as error:  # noqa: BLE001 - the one place where whatever went wrong becomes an outcome
            return self._fail(error)
        finally:
            self._clear()
        logger.info("job done")
        return ExitCode.OK

    def record(self, failure: Failure) -> None:
        """Write down how the attempt failed. Best effort: without it, settle goes by the exit code."""
        if failure.kind is OutcomeClass.SUPERSEDED:
            return
        try:
            self.leases.record_result(self.id, RecordedResult(self.id.attempt, failure.kind.value, failure.error))
        except LeaseChangedError:
            logger.info("result not recorded: the output is committed, or the lease is lost")
        except (ClientError, BotoCoreError) as error:
            logger.warning("result not recorded", extra={"error": type(error).__name__})

    def _work(self, lease: Lease) -> tuple[Destination, Job[Any]]:
        """Everything up to files on the task's own disk. Answers where they are to go, and what was written."""
        stage = self.settings.stage(lease.stage)
        request = parse_request(self.requests.get(lease.request_ref).body, self.settings, stage)
        destination = Destination(parse_output(request.output, self.settings.paths), request.mode)
        require_room(self.s3, destination.path, destination.mode, self.id)
        # What the claim said: a deploy may have changed the stage's default since.
        loaded = loading.load(lease.input.job or request.job or "", request.params, self._fetch)
        inputs = {name: parse_input(path, self.settings.paths) for name, path in request.inputs.items()}
        listing = Listing(self.s3, self.settings.paths.data_bucket)
        staged = self._stage(listing, inputs)  # while Spark boots
        spark = self.spark.session()
        partitions = shuffle_partitions(self.task.resources.cores, sum(each.size_bytes for each in staged.values()))
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        self.progress.enter(Phase.RUNNING)
        job: Job[Any] = Job(
            loaded.params,
            staged,
            self.area.output,
            self.progress.say,
            Emitter(self.settings, stage),
            quiet=self._quiet,
        )
        with self._watching(spark):
            loaded.run(spark, job)
        # Its memory is free for the upload. Not when the job failed: the JVM may be dying, and its own end says why.
        self.spark.close()
        self.stop.check()
        if not job.written and job.emitter.requests is None:
            raise NoOutputError(
                "the job ended without writing anything: call job.write, or let a script write to {output}"
            )
        return replace(destination, was_read=listing.manifests.get(str(destination.path))), job

    def _clear(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        try:
            self.area.clear()
        except (ClientError, BotoCoreError) as error:  # what is left expires
            logger.warning("work area not cleared", extra={"error": type(error).__name__})

    def _fetch(self, job: str) -> Path:
        return fetch_code(self.s3, parse_job(job, self.settings.paths), self.scratch / "code")

    def _stage(self, listing: Listing, inputs: Mapping[str, DataPath]) -> Mapping[str, StagedInput]:
        return self.area.stage(
            listing,
            inputs,
            self.stop,
            begin=lambda size: self.progress.enter(Phase.STAGING, size),
            advance=self.progress.advance,
        )

    def _commit(self, destination: Destination, job: Job[Any]) -> CommittedOutput:
        uploader = Uploader(
            self.s3,
            self.settings.paths.data_bucket,
            self.stop,
            begin=lambda size: self.progress.enter(Phase.PUBLISHING, size),
            advance=self.progress.advance,
        )
        output = uploader.upload(self.id, str(destination.path), job.written, destination.mode, destination.was_read)
        if job.emitter.requests is not None:
            output = replace(output, emitted_ref=emitted_ref(self.id))
            self.requests.put_emitted(emitted_ref(self.id), job.emitter.requests)
        self.stop.check()
        require_room(self.s3, destination.path, destination.mode, self.id)
        self._may_be_committed = True
        try:
            self.leases.commit(self.id, output)
        except LeaseChangedError as error:
            self._may_be_committed = False
            if error.current is not None and error.current.owns(self.id) and error.current.cancel_requested_at:
                self.stop.request(StopReason.CANCELLED, "cancelled on request")
            raise
        return output

    def _publish(self, output: CommittedOutput) -> None:
        self._may_be_committed = True
        self.publisher.publish(output)
        try:
            self.leases.mark_published(self.id, self.clock.now())
        except LeaseChangedError:
            logger.info("published; the lease was settled meanwhile, and settle publishes what is committed")

    def _fail(self, error: Exception) -> ExitCode:
        # A JVM that is told to end stops Spark first, which fails the job in one way or another: the JVM's end is the cause.
        going = failures.may_be_jvm_death(error) or (self._watch is not None and self._watch.is_spark_gone())
        if going and not self.stop.requested:
            self.stop.wait(_CAUSE_WAIT_S)
        failure = failures.of_stop(self.stop) if self.stop.requested else failures.of_error(error)
        # The text is in the lease row alone: Spark's errors quote queries, and logs are read by more people.
        logger.error(
            "attempt failed",
            exc_info=error,
            extra={"outcome": failure.kind.value, "exit_code": int(failure.exit_code)},
        )
        self.record(failure)
        if not self._may_be_committed:
            try:
                self.publisher.discard(self.id)
            except (ClientError, BotoCoreError) as trouble:  # settle does it again
                logger.warning("pending uploads not aborted", extra={"error": type(trouble).__name__})
        return failure.exit_code

    @contextmanager
    def _quiet(self, note: str, longest: str) -> Iterator[None]:
        self.progress.be_quiet(note, self.clock.now() + timedelta(seconds=parse_duration_s(longest)))
        try:
            yield
        finally:
            self.progress.be_quiet("", None)

    @contextmanager
    def _deadline(self, timeout_s: int) -> Iterator[None]:
        def expire() -> None:
            self.stop.request(StopReason.DEADLINE, f"ran longer than its timeout of {timeout_s} s")

        timer = threading.Timer(timeout_s + _DEADLINE_MARGIN_S, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def _reporting(self, lease: Lease) -> Iterator[None]:
        reporter = Reporter(
            leases=self.reports,
            attempt=self.id,
            clock=self.clock,
            stop=self.stop,
            progress=self.progress,
            period_s=self.settings.lease.progress_period_s,
            give_up_s=lease.stall_timeout_s,
            spark=lambda: self._watch.latest if self._watch else SparkSample(),
            tree=self.vantage.tree(),
        )
        reporter.start()
        try:
            yield
        finally:
            reporter.finish()

    @contextmanager
    def _watching(self, spark: SparkSession) -> Iterator[None]:
        watch = SparkWatch(
            spark.sparkContext, self.settings.lease.progress_period_s / 2, has_executors=self.vantage.has_executors
        )
        self._watch = watch
        watch.start()
        try:
            yield
        finally:
            watch.stop()
