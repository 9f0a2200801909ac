"""End an attempt: look at how it ended, write the outcome, then release or finish."""

import random
from dataclasses import dataclass, replace
from typing import Literal

from aws_lambda_powertools import Logger

from longhaul.domain import outcome
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.lease import AttemptId, Lease, State
from longhaul.domain.outcome import Evidence, OutcomeClass, Verdict
from longhaul.finish import Finisher
from longhaul.metrics import StageMetric
from longhaul.ports import Clock, LeaseStore, Metrics, Publisher, Tasks
from longhaul.settings import RuntimeSettings

logger = Logger(child=True)

Answer = Literal["SUCCEEDED", "RELEASED", "DEAD", "CANCELLED", "SUPERSEDED"]
_TRIES = 5
_COUNTED_AS = {
    State.SUCCEEDED: StageMetric.SUCCEEDED,
    State.RELEASED: StageMetric.RETRIED,
    State.DEAD: StageMetric.DEAD_LETTERED,
}


@dataclass(frozen=True)
class Settler:
    settings: RuntimeSettings
    clock: Clock
    rng: random.Random
    leases: LeaseStore
    tasks: Tasks
    publisher: Publisher
    finisher: Finisher
    metrics: Metrics

    def settle(self, attempt: AttemptId, evidence: Evidence) -> Answer:
        """Write how the attempt ended and do what follows. Repeatable: a second call finds it settled and finishes what the first left."""
        lease = self.leases.load(attempt.key)
        for _ in range(_TRIES):
            if lease is None:
                return "SUPERSEDED"
            if not lease.owns(attempt):
                return self._settled_before(lease, attempt)
            verdict = self._verdict(lease, evidence)
            if verdict.stop_task and lease.task_arn:
                # Before the write: a crash here is repeated by the next try, which would pass over it once the attempt is settled.
                ended = self.tasks.stop(lease.task_arn, f"Longhaul: {verdict.kind}").ended_as
                if ended is not None and verdict.kind in (OutcomeClass.STALLED, OutcomeClass.TIMED_OUT):
                    # It made no progress because it is gone, and Step Functions has not heard of it yet. How it went says whose fault that was.
                    verdict, evidence = self._verdict(lease, ended), ended
            stage = self.settings.stage(lease.stage)
            task_from, task_until = outcome.task_times(evidence)
            task_arn = lease.task_arn or outcome.task_arn(evidence)
            seen = replace(lease, task_arn=task_arn, task_from=task_from, task_until=task_until)
            settlement = outcome.settle(seen, verdict, stage, self.settings.lease, self.clock.now(), self.rng)
            try:
                self.leases.settle(lease, settlement.lease)
            except LeaseChangedError as error:
                lease = error.current  # it committed, or another settle came first: look again
                continue
            if verdict.throttled:
                self.leases.throttled(stage, self.clock.now())
            logger.info(
                "attempt settled",
                # The error's name, not its words: a job's words may quote its data, and are in the row.
                extra={
                    "outcome": verdict.kind.value,
                    "error": evidence.error,
                    "state": settlement.lease.state.value,
                    "lease": attempt.key,
                },
            )
            if counted := _COUNTED_AS.get(settlement.lease.state):
                self.metrics.put({counted: 1}, stage=lease.stage)
            settled = self.finisher.settled(settlement.lease, settlement.retry_in_s)
            if settlement.lease.output is None:
                self.publisher.discard(attempt)
            return _answer(settled)
        raise RuntimeError(f"{attempt.key} keeps changing: settled by the next try or the sweeper")

    def _verdict(self, lease: Lease, evidence: Evidence) -> Verdict:
        verdict = outcome.classify(lease, evidence)
        if verdict.kind is OutcomeClass.SUPERSEDED:
            # The row says that the attempt owns the lease, so what withdrew was a second task (RunTask's answer was lost). Step Functions followed that
            # one; nobody would hear of the first one's end.
            return Verdict(OutcomeClass.INTERRUPTED, f"a second task withdrew: {verdict.detail}", stop_task=True)
        return verdict

    def _settled_before(self, lease: Lease, attempt: AttemptId) -> Answer:
        """A repeated settle: if the row still tells of this attempt, do what it left undone."""
        if lease.id != attempt or not lease.has_settled(attempt):
            return "SUPERSEDED"
        if lease.state is State.RELEASED and lease.retry_at:
            self.finisher.release(lease, max(0, round((lease.retry_at - self.clock.now()).total_seconds())))
            return "RELEASED"
        return _answer(self.finisher.finish(lease))


def _answer(lease: Lease) -> Answer:
    match lease.state:
        case State.RUNNING:  # a new run began while we finished; ours is over
            return "SUPERSEDED"
        case State.RELEASED:
            return "RELEASED"
        case State.SUCCEEDED:
            return "SUCCEEDED"
        case State.DEAD:
            return "DEAD"
        case State.CANCELLED:
            return "CANCELLED"
