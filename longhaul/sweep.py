"""Repair what a lost event or a crash left. Events tell of most of it within seconds; this finds the rest, whatever was lost.

Idempotent; one bad row never blocks the rest.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import islice

from aws_lambda_powertools import Logger

from longhaul.domain.lease import ExecutionInput, Lease, OpenKind
from longhaul.domain.message import renewal
from longhaul.domain.outcome import Evidence
from longhaul.finish import Finisher
from longhaul.measure import StageWatch
from longhaul.metrics import SweeperMetric
from longhaul.ports import Clock, Executions, JobQueue, LeaseStore, Metrics, RequestStore, Tasks
from longhaul.settings import RuntimeSettings, Stage
from longhaul.settle import Settler

logger = Logger(child=True)

_PAGE = 100


@dataclass
class SweepReport:
    """How many rows were looked at, and what was done."""

    looked_at: int = 0
    settled: int = 0
    started: int = 0
    finished: int = 0
    renewed: int = 0
    stopped: int = 0
    failed: int = 0

    @property
    def repairs(self) -> int:
        return self.settled + self.started + self.finished + self.renewed + self.stopped


@dataclass(frozen=True)
class Sweeper:
    settings: RuntimeSettings
    clock: Clock
    leases: LeaseStore
    queue: JobQueue
    executions: Executions
    requests: RequestStore
    tasks: Tasks
    settler: Settler
    finisher: Finisher
    metrics: Metrics

    def execution_ended(self, execution_input: str, status: str) -> str:
        """An execution ended FAILED, TIMED_OUT or ABORTED: settle its attempt unless that was done. Answers the outcome."""
        attempt = ExecutionInput.model_validate_json(execution_input).id
        return self.settler.settle(attempt, Evidence.execution_closed(status))

    def sweep(self) -> SweepReport:
        """Look at every unfinished row of every stage."""
        report = SweepReport()
        for stage in self.settings.stages:
            watch = StageWatch(self.settings, stage, self.clock.now())
            for lease in watch.over(self._open(stage.name, "RUNNING")):
                self._guard(report, lease, self._check_running)
            for lease in watch.over(self._open(stage.name, "RELEASED")):
                self._guard(report, lease, self._check_released)
            for lease in self._open(stage.name, "OWED"):
                self._guard(report, lease, self._check_owed)
            self._measure(stage, watch)
        self._stop_orphans(report)
        # An alarm watches that these keep coming: a sweeper that does not run is noticed by nobody else.
        self.metrics.put(
            {
                SweeperMetric.SWEEPS: 1,
                SweeperMetric.REPAIRS: report.repairs,
                SweeperMetric.FAILED_REPAIRS: report.failed,
            },
            service="sweeper",
        )
        logger.info("swept", extra=asdict(report))
        return report

    def _check_running(self, lease: Lease, report: SweepReport) -> None:
        """A lease that nobody has renewed in time: does its execution live?"""
        grace = timedelta(seconds=self.settings.lease.visibility_margin_s)
        if lease.lease_expires_at and self.clock.now() < lease.lease_expires_at + grace:
            return
        status = self.executions.status(lease.id.execution_name)
        if status == "RUNNING":
            return  # its beats fail; they are retried, and the execution has its own end
        if status is None:
            # Claimed and never started, and its message has not come again: start it now.
            self.executions.ensure_started(lease.id.execution_name, lease.execution_input)
            report.started += 1
            return
        self.settler.settle(lease.id, Evidence.execution_closed(status))
        report.settled += 1

    def _check_released(self, lease: Lease, report: SweepReport) -> None:
        """A released job whose message has not come for hours: send a copy. Should the message come after all, one of the two is the duplicate."""
        missing_since = (lease.retry_at or lease.claimed_at) + timedelta(seconds=self.settings.lease.missing_after_s)
        now = self.clock.now()
        if now < missing_since:
            return
        content = self.requests.get(lease.request_ref)
        copy = renewal(content, lease.message_id, lease.key, lease.first_sent_at or lease.claimed_at)
        self.queue.send(self.settings.stage(lease.stage).queue_url, copy)
        self.leases.note_renewal(lease, now)
        report.renewed += 1
        logger.warning("a released job's message had not come for hours: sent anew", extra={"lease": lease.key})

    def _check_owed(self, lease: Lease, report: SweepReport) -> None:
        if self.finisher.finish(lease).is_finished:
            report.finished += 1

    def _stop_orphans(self, report: SweepReport) -> None:
        """Stop tasks whose attempt holds no lease any more: they can publish nothing, and cost money."""
        tasks = self.tasks.running()
        while page := list(islice(tasks, _PAGE)):
            rows = self.leases.load_many(task.attempt.key for task in page)
            for task in page:
                row = rows.get(task.attempt.key)
                if row is None or not row.owns(task.attempt) or row.task_arn not in (None, task.arn):
                    self.tasks.stop(task.arn, "Longhaul: this attempt holds no lease")
                    report.stopped += 1
                    logger.warning(
                        "stopped a task without a lease", extra={"lease": task.attempt.key, "task": task.arn}
                    )

    def _measure(self, stage: Stage, watch: StageWatch) -> None:
        try:
            values = watch.values(self.queue, self.leases)
        except (
            Exception
        ):  # metrics must not keep the sweeper from repairing; without them, their alarms stay as they are
            logger.exception("could not measure this stage", extra={"stage": stage.name})
        else:
            self.metrics.put(values, stage=stage.name)

    def _guard(self, report: SweepReport, lease: Lease, check: Callable[[Lease, SweepReport], None]) -> None:
        report.looked_at += 1
        try:
            check(lease, report)
        except Exception:  # the next row must have its turn; this one has the next sweep
            report.failed += 1
            logger.exception("could not repair this lease", extra={"lease": lease.key, "attempt": lease.attempt})

    def _open(self, stage: str, what: OpenKind) -> Iterator[Lease]:
        """The rows, read strongly: the index is a little late, so rows that are no longer in that state are passed over."""
        keys = self.leases.open_keys(stage, what)
        while page := list(islice(keys, _PAGE)):
            for lease in self.leases.load_many(page).values():
                if lease.open_kind == what:
                    yield lease
