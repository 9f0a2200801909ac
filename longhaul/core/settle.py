"""End an attempt: decide how it ended, write the outcome, then release or finish."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from aws_lambda_powertools import Logger

from longhaul.core import transitions
from longhaul.core.errors import LeaseChangedError
from longhaul.core.finish import Finisher
from longhaul.core.giving_up import GivingUp
from longhaul.core.lease import AttemptId, Lease, State
from longhaul.core.metrics import Metric, StageMetric
from longhaul.core.ports import Context
from longhaul.core.settings import Stage
from longhaul.core.settlement import Settlement, decide_settle, why_stop
from longhaul.core.verdict import Evidence, OutcomeClass, StoppedTask, Verdict, says_throttled

logger = Logger(child=True)

SettledAs = Literal["SUPERSEDED"] | State
"""The state of the job; or the attempt had lost its lease before."""
_TRIES = 5


@dataclass(frozen=True, kw_only=True)
class Settler:
    context: Context
    finisher: Finisher
    giving_up: GivingUp

    def settle(
        self, attempt: AttemptId, evidence: Evidence, until: datetime | None = None
    ) -> SettledAs:
        """Write how the attempt ended and do what follows.

        Repeatable: a second call finds it settled and finishes what the first left. An attempt
        whose settle has raised too often in a row is given up. A publication that is not done
        `until` then stays owed.
        """
        try:
            return self._settle(attempt, evidence, until)
        except Exception as error:
            if not self.giving_up.is_due(attempt.key, f"{attempt.token} settle", error):
                raise
            lease = self.context.leases.load(attempt.key)
            if lease is None or not lease.owns(attempt):
                raise
            return _settled_as(self.finisher.finish(self.giving_up.end(lease, error)))

    def _settle(self, attempt: AttemptId, evidence: Evidence, until: datetime | None) -> SettledAs:
        lease = self.context.leases.load(attempt.key)
        for _ in range(_TRIES):
            if lease is None:
                return "SUPERSEDED"
            if not lease.owns(attempt):
                return self._settled_before(lease, attempt, until)
            settlement = decide_settle(
                lease,
                evidence,
                self._stop_task(lease, evidence),
                self.context.engines,
                self.context.settings,
                self.context.leases.aws_time(),  # compared with when messages were sent
                self.context.rng,
            )
            try:
                self.context.leases.apply(transitions.settle(lease, settlement.lease))
            except LeaseChangedError as error:
                lease = error.current  # it committed, or another settle came first
                continue
            self._report(lease, settlement)
            settled = self.finisher.settled(settlement.lease, settlement.retry_in_s, until)
            if settlement.lease.attempt.output is None:
                self.finisher.publication.discard(attempt)
            return _settled_as(settled)
        raise RuntimeError(f"{attempt.key} keeps changing: settled by the next try or the sweeper")

    def _stop_task(self, lease: Lease, evidence: Evidence) -> StoppedTask | None:
        """Stop a task that may still run, and ask the engine how it had ended.

        Before the write: after it, a retry sees a settled attempt and skips the stop.
        """
        task_arn = lease.attempt.task_arn
        reason = why_stop(lease, evidence, self.context.engines) if task_arn else None
        return (
            self.context.tasks.stop(task_arn, lease.id, f"Longhaul: {reason}")
            if task_arn and reason
            else None
        )

    def _report(self, before: Lease, settlement: Settlement) -> None:
        """Tell the stage's limit, the log and the metrics how the attempt ended."""
        if settlement.verdict.kind in (OutcomeClass.NOT_PLACED, OutcomeClass.REFUSED):
            self._adapt(self.context.settings.stage_or_removed(before.stage), settlement.verdict)
        logger.info(
            "attempt settled",
            # The error's name, not its text: a job's text may quote its data. It is in the row.
            extra={
                "outcome": settlement.verdict.kind.value,
                "error": settlement.error,
                "state": settlement.lease.state.value,
                "lease": before.key,
            },
        )
        if values := _measured(before, settlement):
            self.context.metrics.put(values, stage=before.stage)

    def _adapt(self, stage: Stage, refused: Verdict) -> None:
        """Start fewer jobs in a second, or run fewer at once."""
        slots = self.context.slots
        adapt = slots.slow_down if says_throttled(refused.detail) else slots.lower_limit
        try:
            adapt(stage, self.context.clock.now())
        except Exception:  # a hint: the next refusal gives it again, and the settle must go on
            logger.exception("could not slow the stage down", extra={"stage": stage.name})

    def _settled_before(
        self, lease: Lease, attempt: AttemptId, until: datetime | None
    ) -> SettledAs:
        """A repeated settle: while the row is still of this attempt, do what is left to do."""
        if lease.id != attempt:
            return "SUPERSEDED"
        if lease.state is State.RELEASED and lease.retry_at:
            self.finisher.release(
                lease, max(0, round((lease.retry_at - self.context.clock.now()).total_seconds()))
            )
            return State.RELEASED
        return _settled_as(self.finisher.finish(lease, until))


def _measured(before: Lease, settlement: Settlement) -> dict[Metric, float]:
    """What an attempt's end counts as. Refusals and cancels waste no work."""
    after = settlement.lease
    values: dict[Metric, float] = {}
    # A cancelled job ends so whatever became of its attempt.
    if after.settled_at is not None and after.state is not State.CANCELLED:
        work_s = (after.settled_at - before.attempt.claimed_at).total_seconds()
        # Up to its last save its work was of use, and lowers the sum as that of a success does.
        wasted_s = work_s - 2 * min(before.kept_s, work_s)
        match settlement.verdict.kind:
            case OutcomeClass.SUCCEEDED:
                values = {StageMetric.SUCCEEDED: 1, StageMetric.WASTED: -work_s}
            case OutcomeClass.INTERRUPTED:
                values = {StageMetric.INTERRUPTED: 1, StageMetric.WASTED: wasted_s}
            case OutcomeClass.NOT_PLACED | OutcomeClass.REFUSED:
                values = {StageMetric.NOT_PLACED: 1}
            case OutcomeClass.SUPERSEDED:
                pass
            case _:
                values = {StageMetric.FAILED: 1, StageMetric.WASTED: wasted_s}
    if after.state is State.DEAD:
        values[StageMetric.DEAD_LETTERED] = 1
    return values


def _settled_as(lease: Lease) -> SettledAs:
    # RUNNING: a new run has begun meanwhile.
    return "SUPERSEDED" if lease.state is State.RUNNING else lease.state
