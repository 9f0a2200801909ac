"""Bugs about the end of an attempt, and about a sweep's repairs."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_BEAT: Final = "longhaul/core/beat.py"
_SETTLEMENT: Final = "longhaul/core/settlement.py"
_SETTLE: Final = "longhaul/core/settle.py"
_SLOTS: Final = "longhaul/core/store/slots.py"
_STARTING: Final = "longhaul/core/slots.py"
_SWEEP: Final = "longhaul/core/sweep.py"

OUTCOME: Final = (
    Mutant(
        "the message is deleted before the publish",
        _SETTLEMENT,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (Owed.DELETE, *follow_ons, *publish)",
    ),
    Mutant(
        "no dead letter is sent",
        _SETTLEMENT,
        "replace(row, state=State.DEAD, owed=(Owed.DEAD_LETTER, Owed.DELETE))",
        "replace(row, state=State.DEAD, owed=(Owed.DELETE,))",
    ),
    Mutant(
        "settle ignores a committed output",
        _SETTLEMENT,
        "    if attempt.output is not None:\n        return Verdict(",
        "    if attempt.output is None and False:\n        return Verdict(",
    ),
    Mutant(
        "an interruption counts as a failure",
        _SETTLEMENT,
        "row = replace(row, interruptions=lease.interruptions + 1)\n        hopeless = row.interruptions >= timing.max_interruptions",
        "row = replace(row, interruptions=lease.interruptions + 1, failures=lease.failures + 1)\n        hopeless = row.failures >= lease.max_attempts",
    ),
    Mutant(
        "a job gets one attempt too many",
        _SETTLEMENT,
        "row.failures >= lease.max_attempts",
        "row.failures > lease.max_attempts",
    ),
    Mutant(
        "the next attempt does not wait for a stop",
        _SETTLEMENT,
        "        wait = max(wait, backoff.stop_clearance_s(timing))",
        "        wait += 0",
    ),
    Mutant(
        "a new run ignores a task of the old one",
        _STARTING,
        "        if self._is_task_left(claim):\n            self.messages.postpone(batch, message, _STOPPING_S)\n            return\n",
        "",
    ),
    Mutant(
        "settle does not stop a timed-out task",
        _SETTLE,
        "self._stop_task(lease, evidence)",
        "None",
    ),
    Mutant(
        "an attempt without a task counts as an interruption",
        _SETTLEMENT,
        "return Verdict(OutcomeClass.NOT_PLACED, words)",
        "return Verdict(OutcomeClass.INTERRUPTED, words)",
    ),
    Mutant(
        "a task that is cut off from the network has stalled",
        _SETTLEMENT,
        "if own is OutcomeClass.STALLED and _fell_silent(lease):",
        "if own is OutcomeClass.STALLED and _fell_silent(lease) and lease.stage == '':",
    ),
    Mutant(
        "a task that never starts is waited for",
        _BEAT,
        "_beats_for_s(lease.attempt, age_s) >= timing.start_timeout_s:",
        "_beats_for_s(lease.attempt, age_s) >= 100 * timing.start_timeout_s:",
    ),
    Mutant(
        "a lowered limit never rises again",
        _SLOTS,
        "if limit < use.slots and now - time_of(slots['limit_changed_at']) >= CALM:",
        "if limit < use.slots and now - time_of(slots['limit_changed_at']) >= 99_999 * CALM:",
    ),
    Mutant(
        "the sweeper leaves debts unpaid",
        _SWEEP,
        "is_finished = self.finisher.finish(lease, self._turn_until(report)).is_finished",
        "is_finished = True",
    ),
    Mutant(
        "the sweeper does not settle closed executions",
        _SWEEP,
        "        self.settler.settle(lease.id, closed, self._turn_until(report))\n        report.settled += 1",
        "        report.settled += 1",
    ),
    Mutant(
        "the sweeper settles running executions",
        _SWEEP,
        'if status == "RUNNING":\n            return',
        'if status == "QUIET":\n            return',
    ),
    Mutant(
        "the sweeper does not replace lost messages",
        _SWEEP,
        "if unseen_for < timedelta(seconds=self.context.timing.missing_after_s):",
        "if lease.key:",
    ),
    Mutant(
        "the sweeper does not stop stray tasks",
        _SWEEP,
        "if row is None or not leased or row.attempt.task_arn not in (None, task.arn):",
        "if row is None:",
    ),
)
