"""Bugs of the protocol: leases, messages, outcomes."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_BEAT: Final = "longhaul/core/beat.py"
_CLAIM: Final = "longhaul/core/claim.py"
_DISPATCH: Final = "longhaul/core/dispatch.py"
_LEASE: Final = "longhaul/core/lease.py"
_LEASES: Final = "longhaul/core/store/leases.py"
_SETTLE: Final = "longhaul/core/settle.py"
_SETTLEMENT: Final = "longhaul/core/settlement.py"
_SLOTS: Final = "longhaul/core/store/slots.py"
_SWEEP: Final = "longhaul/core/sweep.py"
_TRANSITIONS: Final = "longhaul/core/transitions.py"

FENCE: Final = (
    Mutant(
        "an older attempt writes to the row",
        _LEASES,
        'Clause.MINE: "run = :run AND attempt = :attempt"',
        'Clause.MINE: "run = :run AND attempt >= :attempt"',
    ),
    Mutant(
        "two tasks work on one attempt",
        _LEASES,
        "OR task_arn = :task_arn)",
        "OR task_arn <= :task_arn OR task_arn > :task_arn)",
    ),
    Mutant(
        "a failure overrules a commit",
        _TRANSITIONS,
        "    if before.attempt.output is None:\n        requires[Clause.UNCOMMITTED] = None\n",
        "",
    ),
    Mutant(
        "a commit succeeds after the cancel mark",
        _TRANSITIONS,
        "also={Clause.UNCOMMITTED: None, Clause.NOT_CANCELLED: None}",
        "also={}",
    ),
    Mutant(
        "the execution name lacks the attempt",
        "longhaul/core/lease.py",
        "        return self.token\n",
        '        return f"{self.key_hash}-{self.run}"\n',
    ),
    Mutant(
        "the probe sends another input than the row's",
        _DISPATCH,
        "lease.id.execution_name, lease.execution_input\n        )\n        row =",
        'lease.id.execution_name, lease.execution_input + " "\n        ) or "ABORTED"\n        row =',
    ),
    Mutant(
        "a settled attempt keeps its slot",
        _SLOTS,
        "self._change(stage, -1)",
        "self._change(stage, 0)",
    ),
    Mutant(
        "a claim takes no slot",
        _SLOTS,
        "self._change(stage.name, +1)",
        "self._change(stage.name, 0)",
    ),
    Mutant(
        "a claim does not look at the pause",
        _SLOTS,
        'NOT_PAUSED = "attribute_not_exists(paused_at)"',
        'NOT_PAUSED = "attribute_not_exists(paused)"',
    ),
)
"""Bugs of the fence: which attempt may write, and how many run."""

MESSAGES: Final = (
    Mutant(
        "the list of batch failures starts empty",
        _DISPATCH,
        "batch = Batch(stage, {delivery.message_id for delivery in deliveries}, until)",
        "batch = Batch(stage, set(), until)",
    ),
    Mutant(
        "an adoption keeps the old receipt handle",
        _TRANSITIONS,
        '"receipt_handle": after.receipt_handle',
        '"receipt_handle": before.receipt_handle or after.receipt_handle',
    ),
    Mutant(
        "the 12 hour limit of SQS is ignored",
        _BEAT,
        "return max(0, min(wanted, math.floor(MAX_VISIBILITY_S - held_s)))",
        "return wanted",
        also=Mutant(
            "messages are not handed over",
            _BEAT,
            "if held_s >= timing.hand_over_age_s:",
            "if held_s >= 10 * timing.hand_over_age_s:",
        ),
    ),
    Mutant(
        "extensions grow with the age of the receive",
        _BEAT,
        "timing.visibility_factor * interval + timing.visibility_margin_s)",
        "timing.visibility_factor * interval + timing.visibility_margin_s + 20 * held_s)",
    ),
    Mutant(
        "a late beat overrides the back-off",
        "longhaul/core/heartbeat.py",
        "            self._undo(lease, handle, error.current)\n",
        "",
    ),
    Mutant(
        "conflicting work is dropped as a duplicate",
        _CLAIM,
        "return Conflict(lease)",
        "return Duplicate()",
    ),
    Mutant(
        "a worn-out message is deleted without a copy",
        _DISPATCH,
        "        self.context.queue.send(batch.stage.queue_url, copy)\n",
        "",
    ),
    Mutant(
        "an outage counts as an error of the message",
        "longhaul/core/aws_errors.py",
        "    if isinstance(error, ClientError):\n        return is_refused(error)",
        "    if isinstance(error, ClientError):\n        return True",
    ),
)
"""Bugs about a message: how long it is hidden, and when it is deleted or given up."""

WHEN_SENT: Final = (
    Mutant(
        "a correction inherits the cancel mark",
        _CLAIM,
        "cancelled_at=old.cancelled_at if old else None",
        "cancelled_at=old.cancelled_at if old else None,"
        " cancel_requested_at=old.cancel_requested_at if old else None",
    ),
    Mutant(
        "a new run forgets the cancel before it",
        _CLAIM,
        "cancelled_at=old.cancelled_at if old else None",
        "cancelled_at=None",
    ),
    Mutant(
        "a cancel covers what is sent after it",
        _LEASE,
        "return self.cancelled_at is not None and sent_at < self.cancelled_at",
        "return self.cancelled_at is not None",
    ),
    Mutant(
        "a dead job runs again for what was sent before its end",
        _LEASE,
        "return self.settled_at is None or sent_at >= self.settled_at",
        "return True",
    ),
    Mutant(
        "what a dead run left over is a conflict with its correction",
        _CLAIM,
        "if lease.has_outlived(fingerprint, message.first_sent_at):",
        "if False:",
    ),
    Mutant(
        "an older receive is adopted over a newer one",
        _TRANSITIONS,
        "also[Clause.NEWER_RECEIVE] = message.receive_count",
        "also.update()",
    ),
    Mutant(
        "nothing notes that a released job's message was seen",
        _DISPATCH,
        "self.context.leases.apply(transitions.note_seen(row, now))",
        "pass",
        also=Mutant(
            "nor does a sweep",
            "longhaul/core/sweep.py",
            "noted = self.context.leases.apply(transitions.note_seen(lease, now))",
            "noted = transitions.note_seen(lease, now).after",
        ),
    ),
    Mutant(
        "a refusal ends what was sent before it under the same id",
        "longhaul/core/lease.py",
        "if self.is_refused:\n            return True",
        "pass",
    ),
)
"""Bugs about the time at which a message was sent, and about its chain of copies."""

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
        _DISPATCH,
        "        if self._is_task_left(claim.replaces, message):\n            self.messages.postpone(batch, message, _STOPPING_S)\n            return\n",
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
        'if limit < use.slots and now - time_of(slots["limit_changed_at"]) >= CALM:',
        'if limit < use.slots and now - time_of(slots["limit_changed_at"]) >= 99_999 * CALM:',
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
"""Bugs about the end of an attempt, and about a sweep's repairs."""

RARE: Final = (
    Mutant(
        "a batch that comes late replaces a newer receive",
        _CLAIM,
        "    if message.message_id == before.message_id"
        " and message.receive_count < before.receive_count:\n"
        "        return before\n",
        "",
    ),
    Mutant(
        "a message is never renewed for its age",
        "longhaul/core/message.py",
        "(now - self.sent_at).total_seconds() >= timing.renew_age_s",
        "False",
    ),
)
"""Bugs that only rare worlds show: late batches, stages taken out, rows that expire, long waits."""
