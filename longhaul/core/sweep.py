"""Repair what a lost event or a crash left, and measure the stages on the way.

Events report most of it within seconds; a sweep finds the rest. It is idempotent, and one bad row
never blocks the others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from random import Random
from typing import TypeVar

from aws_lambda_powertools import Logger

from longhaul.core import transitions
from longhaul.core.errors import LeaseChangedError
from longhaul.core.finish import Finisher
from longhaul.core.giving_up import GivingUp
from longhaul.core.lease import AttemptId, ExecutionInput, Lease, OpenKind, State
from longhaul.core.logs import about
from longhaul.core.message import renewal
from longhaul.core.metrics import Metric, StageMetric, SweeperMetric
from longhaul.core.pace import Room
from longhaul.core.ports import (
    Context,
    JobQueue,
    RunningTask,
    Slots,
)
from longhaul.core.settings import RuntimeSettings, Stage
from longhaul.core.settle import Settler
from longhaul.core.settlement import ended
from longhaul.core.verdict import Evidence, OutcomeClass

logger = Logger(child=True)

T = TypeVar("T")

_PAGE = 100
_TURN = timedelta(seconds=60)
_OTHER_CHECKS = timedelta(seconds=60)
"""What is left of a sweep's time when no more is published."""


@dataclass
class SweepReport:
    """How many rows were checked, and what was done to leases, tasks, and what attempts left.

    `unreadable`: rows of unfinished jobs that another version wrote in a form of its own.
    `oldest_owed_s`: age of the oldest ended row that still owes something after the sweep.
    """

    looked_at: int = 0
    settled: int = 0
    started: int = 0
    finished: int = 0
    renewed: int = 0
    trees_told: int = 0
    stopped: int = 0
    discarded: int = 0
    removed: int = 0
    failed: int = 0
    unreadable: int = 0
    oldest_owed_s: float = 0
    publish_until: datetime | None = None

    @property
    def counts(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if isinstance(value, int | float)}

    @property
    def repairs(self) -> int:
        return self.settled + self.started + self.finished + self.renewed + self.stopped


@dataclass(frozen=True)
class Sweep:
    """One sweep: what it has done so far, and the order in which it looks.

    The order is another one each time: a row at which the function is killed, for its memory or its
    time, would keep each sweep from the same rows behind it.
    """

    report: SweepReport
    order: Random

    def shuffled(self, found: Iterable[T]) -> list[T]:
        """All of them, in this sweep's order."""
        every = list(found)
        self.order.shuffle(every)
        return every

    def pages(self, found: Iterable[T]) -> Iterator[Sequence[T]]:
        """The same, a page after the other."""
        shuffled = self.shuffled(found)
        for start in range(0, len(shuffled), _PAGE):
            yield shuffled[start : start + _PAGE]

    @contextmanager
    def guard(self, what: AttemptId | str, label: str | None = None) -> Iterator[None]:
        """Any error in the block: the others go on, and the next sweep tries this one again."""
        with about(what, label):
            try:
                yield
            except Exception:
                self.report.failed += 1
                logger.exception(
                    "could not repair this",
                    extra={"lease": what if isinstance(what, str) else what.key},
                )


Check = Callable[[Lease, SweepReport], None]
LookAfter = Callable[[Sweep], None]
"""What a feature does in each sweep."""


@dataclass(frozen=True, kw_only=True)
class Sweeper:
    context: Context
    settler: Settler
    finisher: Finisher
    giving_up: GivingUp
    features: Sequence[LookAfter]

    def execution_ended(
        self, execution_input: str, status: str, error: str | None, until: datetime | None = None
    ) -> str:
        """An execution ended FAILED, TIMED_OUT or ABORTED: settle its attempt unless that was done.

        Returns the outcome. An execution that ends with the error RELEASED was settled, and nothing
        is left to do: setting the back-off again would restart it.
        """
        if error == State.RELEASED:
            return error
        execution = ExecutionInput.model_validate_json(execution_input)
        with about(execution.id, execution.label):
            return self.settler.settle(execution.id, Evidence.execution_closed(status), until)

    def sweep(self, until: datetime | None = None) -> SweepReport:
        """Check every unfinished row of every stage, every task, and every pending list.

        Publications stop well before `until`, so that the other checks have their time.
        """
        report = SweepReport(publish_until=until and until - _OTHER_CHECKS)
        order = Random(self.context.clock.now().isoformat())  # noqa: S311 - no secret
        sweep = Sweep(report, order)
        parts: list[LookAfter] = [
            *(partial(self._check_stage, stage) for stage in self._stages()),
            self._stop_orphans,
            *self.features,
        ]
        for part in sweep.shuffled(parts):
            part(sweep)
        # An alarm watches these: nothing else notices a sweeper that does not run.
        self.context.metrics.put(
            {
                SweeperMetric.SWEEPS: 1,
                SweeperMetric.REPAIRS: report.repairs,
                SweeperMetric.UNREADABLE_ROWS: report.unreadable,
                SweeperMetric.OLDEST_OWED: report.oldest_owed_s,
            },
            service="sweeper",
        )
        logger.info("swept", extra=report.counts)
        return report

    def _check_stage(self, stage: Stage, sweep: Sweep) -> None:
        checks: list[tuple[OpenKind, Check]] = [
            ("RUNNING", self._check_running),
            ("RELEASED", self._check_released),
            ("OWED", self._check_owed),
        ]
        gauges = StageGauges(self.context.settings, stage, self.context.clock.now())
        for what, check in sweep.shuffled(checks):
            for lease in self._open(stage.name, what, sweep):
                sweep.report.looked_at += 1
                with sweep.guard(lease.id, lease.label):
                    self._check(lease, check, gauges, sweep.report)
        if not stage.is_removed:
            self._measure(stage, gauges)

    def _stages(self) -> list[Stage]:
        """The stages, and those that were deployed once: a job of theirs may be unfinished."""
        names = {stage.name for stage in self.context.settings.stages}
        try:
            removed = self.context.leases.stages(names) - names
        except Exception:  # the next sweep finds them; those that are deployed must go on
            logger.exception("could not look for removed stages")
            removed = set()
        return [
            *self.context.settings.stages,
            *(self.context.settings.stage_or_removed(name) for name in sorted(removed)),
        ]

    def _check(
        self,
        lease: Lease,
        check: Check,
        gauges: "StageGauges",
        report: SweepReport,
    ) -> None:
        try:
            gauges.count(lease)
            check(lease, report)
        except Exception as error:
            # `finish` counts for a job that has ended.
            place = f"{lease.id.token} sweep"
            if lease.state.is_terminal or not self.giving_up.is_due(lease.key, place, error):
                raise
            self.finisher.finish(self.giving_up.end(lease, error))

    def _check_running(self, lease: Lease, report: SweepReport) -> None:
        """A lease that was not renewed in time: does its execution run?"""
        grace = timedelta(seconds=self.context.timing.visibility_margin_s)
        if not lease.is_overdue(self.context.clock.now(), grace):
            return
        status = self.context.executions.status(lease.id.execution_name)
        if status == "RUNNING":
            return  # its beats fail; they are retried, and the execution ends by itself
        if status is None:
            # Claimed and never started: start it now.
            self.context.executions.ensure_started(lease.id.execution_name, lease.execution_input)
            report.started += 1
            return
        closed = Evidence.execution_closed(status)
        self.settler.settle(lease.id, closed, self._turn_until(report))
        report.settled += 1

    def _check_released(self, lease: Lease, report: SweepReport) -> None:
        """A released job whose message has not come for hours: send a copy.

        If the message comes after all, one of the two is the duplicate.
        """
        now = self.context.clock.now()
        stage = self.context.settings.stage_or_removed(lease.stage)
        if stage.is_removed:
            self.context.leases.apply(
                transitions.end_waiting(lease, ended(lease, self.context.leases.aws_time()))
            )
            report.finished += 1
            logger.warning("a released job's stage was removed: dead", extra={"lease": lease.key})
            return
        unseen_for = lease.unseen_for(now)
        if unseen_for < timedelta(seconds=self.context.timing.missing_after_s):
            return
        content = self.context.requests.get(lease.request_ref)
        copy = renewal(content, lease.receive.chain, lease.key, lease.asked_at)
        # Before the copy is sent: another sweep may look at the same row.
        try:
            noted = self.context.leases.apply(transitions.note_seen(lease, now))
        except LeaseChangedError:
            return  # its message came a moment ago, or another sweep was first
        try:
            self.context.queue.send(stage.queue_url, copy)
        except Exception:
            with suppress(LeaseChangedError):  # the next sweep tries again, and not in six hours
                self.context.leases.apply(transitions.note_seen(noted, now - unseen_for))
            raise
        report.renewed += 1
        logger.warning(
            "a released job's message had not come for hours: sent again",
            extra={"lease": lease.key},
        )

    def _check_owed(self, lease: Lease, report: SweepReport) -> None:
        is_finished = False
        try:
            is_finished = self.finisher.finish(lease, self._turn_until(report)).is_finished
        finally:
            # Not what this sweep could do: after an outage that is no trouble any more.
            if not is_finished:
                owed_for = self.context.clock.now() - lease.ended_at
                report.oldest_owed_s = max(report.oldest_owed_s, owed_for.total_seconds())
        report.finished += is_finished

    def _turn_until(self, report: SweepReport) -> datetime:
        """End of one publication's turn: a long one goes on in the next sweep."""
        turn = self.context.clock.now() + _TURN
        return min(turn, report.publish_until) if report.publish_until else turn

    def _stop_orphans(self, sweep: Sweep) -> None:
        """Stop tasks whose attempt no longer owns a lease: they publish nothing, and cost money."""
        tasks = self.context.tasks.running()
        while page := list(islice(tasks, _PAGE)):
            rows = self.context.leases.load_many(task.attempt.key for task in page)
            for task in page:
                with sweep.guard(task.attempt):
                    self._stop_unless_leased(task, rows.get(task.attempt.key), sweep.report)

    def _stop_unless_leased(
        self, task: RunningTask, row: Lease | None, report: SweepReport
    ) -> None:
        leased = row is not None and row.owns(task.attempt)
        if row is None or not leased or row.attempt.task_arn not in (None, task.arn):
            self.context.tasks.stop(task.arn, task.attempt, "Longhaul: this attempt holds no lease")
            report.stopped += 1
            logger.warning(
                "stopped a task without a lease",
                extra={"lease": task.attempt.key, "task": task.arn},
            )

    def _measure(self, stage: Stage, gauges: "StageGauges") -> None:
        try:
            room = self.context.slots.room(stage, gauges.now)
            values = gauges.values(self.context.queue, self.context.slots, room)
        except Exception:  # a missing value leaves its alarm as it is; the repairs must go on
            logger.exception("could not measure this stage", extra={"stage": stage.name})
        else:
            self.context.metrics.put(values, stage=stage.name)

    def _open(self, stage: str, what: OpenKind, sweep: Sweep) -> Iterator[Lease]:
        """The rows, read strongly: the index is a little late, so some have left that state.

        Those that cannot be read are counted and passed over.
        """
        for page in sweep.pages(self.context.leases.open_keys(stage, what)):
            rows = self.context.leases.load_many(page)
            sweep.report.unreadable += len(rows.unreadable)
            readable = dict(rows)
            for key in page:
                if (lease := readable.get(key)) and lease.open_kind == what:
                    yield lease


class StageGauges:
    """Collects a stage's gauges while a sweep walks its leases.

    Each value is an age or a number of now, from the table and the queue alone. An alarm on it
    needs no second metric, which may be late, and no memory of its own.
    """

    def __init__(self, settings: RuntimeSettings, stage: Stage, now: datetime) -> None:
        self._settings = settings
        self._stage = stage
        self.now = now
        self._oldest_waiting_s = 0.0
        self._without_beat = 0
        self._near_retention = 0
        self._oldest_refused_s = 0.0

    def count(self, lease: Lease) -> None:
        """Count a lease, before it is repaired."""
        grace = timedelta(seconds=self._settings.lease.visibility_margin_s)
        if lease.is_overdue(self.now, grace):
            self._without_beat += 1
        if lease.state is State.RELEASED:
            # Not since its back-off passed: a copy of a lost message would move that.
            waited = self.now - lease.ended_at
            self._oldest_waiting_s = max(self._oldest_waiting_s, waited.total_seconds())
        # Refused attempts do not end the wait.
        unplaced_s = lease.unplaced_for(self.now).total_seconds()
        self._oldest_waiting_s = max(self._oldest_waiting_s, unplaced_s)
        if unplaced_s and lease.last_class == OutcomeClass.REFUSED.value:
            # Up to the last refusal: in the time since then AWS was not asked.
            refused = lease.ended_at - (lease.unplaced_since or lease.ended_at)
            self._oldest_refused_s = max(self._oldest_refused_s, refused.total_seconds())
        sent_at = lease.receive.sent_at
        if (
            not lease.state.is_terminal
            and sent_at
            and (self.now - sent_at).total_seconds() >= self._settings.near_retention_s
        ):
            self._near_retention += 1

    def values(self, queue: JobQueue, slots: Slots, room: Room) -> dict[Metric, float]:
        """All of the stage's values, after its leases. `room`: its slots a moment ago.

        Raises the errors of the calls about queue and slots.
        """
        # What waits for a slot is hidden between two looks, as a running job's message is.
        depth = queue.depth(self._stage.queue_url)
        backlog = max(depth.visible, depth.visible + depth.hidden - room.running)
        values: dict[Metric, float] = {
            StageMetric.BACKLOG: backlog,
            StageMetric.FREE_SLOTS: room.free,
            StageMetric.BLOCKED: slots.blocked_s(
                self._stage, waiting=depth.visible > 0, now=self.now
            ),
            StageMetric.OLDEST_WAITING: self._oldest_waiting_s,
            StageMetric.WITHOUT_BEAT: self._without_beat,
            StageMetric.NEAR_RETENTION: self._near_retention,
        }
        if self._oldest_refused_s > 0:
            # A metric costs for the hours in which it has values.
            values[StageMetric.OLDEST_REFUSED] = self._oldest_refused_s
        return values
