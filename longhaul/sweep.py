"""Repair what a lost event or a crash left. Events tell of most of it within seconds; this finds the rest, whatever was lost.

Idempotent; one bad row never blocks the rest.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import islice

from aws_lambda_powertools import Logger

from longhaul.domain import pending
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.lease import AttemptId, ExecutionInput, Lease, OpenKind, State
from longhaul.domain.message import renewal
from longhaul.domain.outcome import Evidence
from longhaul.finish import Finisher
from longhaul.logs import about
from longhaul.measure import StageWatch
from longhaul.metrics import SweeperMetric
from longhaul.ports import Clock, Executions, JobQueue, LeaseStore, Metrics, Publisher, RequestStore, RunningTask, Tasks
from longhaul.settings import RuntimeSettings, Stage
from longhaul.settle import Settler

logger = Logger(child=True)

_PAGE = 100


@dataclass
class SweepReport:
    """How many rows were looked at, and what was done: to leases, to tasks, to what attempts left pending."""

    looked_at: int = 0
    settled: int = 0
    started: int = 0
    finished: int = 0
    renewed: int = 0
    stopped: int = 0
    discarded: int = 0
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
    publisher: Publisher
    settler: Settler
    finisher: Finisher
    metrics: Metrics

    def execution_ended(self, execution_input: str, status: str, error: str | None) -> str:
        """An execution ended FAILED, TIMED_OUT or ABORTED: settle its attempt unless that was done. Answers the outcome.

        One that ends with the error RELEASED has had that answer of its settle, which left nothing to do. To give the message its back-off once more would
        count it anew, or by a clock that is not the settle's.
        """
        if error == State.RELEASED:
            return error
        attempt = ExecutionInput.model_validate_json(execution_input).id
        with about(attempt):
            return self.settler.settle(attempt, Evidence.execution_closed(status))

    def sweep(self) -> SweepReport:
        """Look at every unfinished row of every stage, at every task, and at every list of pending uploads."""
        report = SweepReport()
        checks: Mapping[OpenKind, Callable[[Lease, SweepReport], None]] = {
            "RUNNING": self._check_running,
            "RELEASED": self._check_released,
            "OWED": self._check_owed,
        }
        for stage in self.settings.stages:
            watch = StageWatch(self.settings, stage, self.clock.now())
            for what, check in checks.items():
                for lease in watch.over(self._open(stage.name, what)):
                    report.looked_at += 1
                    with self._guard(report, lease.id):
                        check(lease, report)
            self._measure(stage, watch)
        self._stop_orphans(report)
        self._clear_pending(report)
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
        if not lease.is_overdue(self.clock.now(), grace):
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
        now = self.clock.now()
        if lease.unseen_for(now) < timedelta(seconds=self.settings.lease.missing_after_s):
            return
        content = self.requests.get(lease.request_ref)
        copy = renewal(content, lease.message_id, lease.key, lease.first_sent_at or lease.claimed_at)
        self.queue.send(self.settings.stage(lease.stage).queue_url, copy)
        with suppress(LeaseChangedError):  # its message came a moment ago: the copy is the duplicate
            self.leases.note_seen(lease, now)
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
                with self._guard(report, task.attempt):
                    self._stop_unless_leased(task, rows.get(task.attempt.key), report)

    def _stop_unless_leased(self, task: RunningTask, row: Lease | None, report: SweepReport) -> None:
        if row is None or not row.owns(task.attempt) or row.task_arn not in (None, task.arn):
            self.tasks.stop(task.arn, "Longhaul: this attempt holds no lease")
            report.stopped += 1
            logger.warning("stopped a task without a lease", extra={"lease": task.attempt.key, "task": task.arn})

    def _clear_pending(self, report: SweepReport) -> None:
        """Abort what failed attempts left pending, and strike off the lists of which nothing is pending any more.

        One listing when there are none: the lists live under a prefix of their own, and their names say whose they are.
        """
        listed = self.publisher.listed()
        while page := list(islice(listed, _PAGE)):
            rows = self.leases.load_many(attempt.key for attempt in page)
            cleared = []
            for attempt in page:
                with self._guard(report, attempt):
                    if self._is_cleared(attempt, rows.get(attempt.key), report):
                        cleared.append(attempt)
            self.publisher.strike_off(cleared)

    def _is_cleared(self, attempt: AttemptId, row: Lease | None, report: SweepReport) -> bool:
        fate = pending.fate(attempt, row, self.settings.lease, self.clock.now())
        if fate == "abort":
            self.publisher.discard(attempt)
            report.discarded += 1
        return fate != "keep"

    def _measure(self, stage: Stage, watch: StageWatch) -> None:
        try:
            values = watch.values(self.queue, self.leases)
        except Exception:  # without metrics their alarms stay as they are; the repairs must go on
            logger.exception("could not measure this stage", extra={"stage": stage.name})
        else:
            self.metrics.put(values, stage=stage.name)

    @contextmanager
    def _guard(self, report: SweepReport, attempt: AttemptId) -> Iterator[None]:
        with about(attempt):
            try:
                yield
            except Exception:  # the next one must have its turn; this one has the next sweep
                report.failed += 1
                logger.exception("could not repair this", extra={"lease": attempt.key})

    def _open(self, stage: str, what: OpenKind) -> Iterator[Lease]:
        """The rows, read strongly: the index is a little late, so rows that are no longer in that state are passed over."""
        keys = self.leases.open_keys(stage, what)
        while page := list(islice(keys, _PAGE)):
            for lease in self.leases.load_many(page).values():
                if lease.open_kind == what:
                    yield lease
