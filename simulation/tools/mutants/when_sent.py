"""Bugs about the time at which a message was sent, and about its chain of copies."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CLAIM: Final = "longhaul/domain/claim.py"
_LEASE: Final = "longhaul/domain/lease.py"
_TRANSITIONS: Final = "longhaul/domain/transitions.py"
_DISPATCH: Final = "longhaul/dispatch.py"

WHEN_SENT: Final = (
    Mutant(
        "a planned job begins as soon as it comes",
        _CLAIM,
        "if start_at is not None and now < start_at:",
        "if start_at is not None and now < min(start_at, message.sent_at):",
    ),
    Mutant(
        "a planned job's row does not say when it begins",
        _CLAIM,
        "retry_at=start_at",
        "retry_at=None",
    ),
    Mutant(
        "a planned job's message is hidden for longer than SQS does",
        "longhaul/batch.py",
        "min(seconds, floor(MAX_VISIBILITY_S - held_s))",
        "seconds",
    ),
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
        "a cancel covers only the row's own message",
        _CLAIM,
        "    if covered:\n        return Cancelled()\n",
        "",
    ),
    Mutant(
        "a cancel covers what is sent after it",
        _LEASE,
        "return cancelled_at is not None and sent_at < cancelled_at",
        "return cancelled_at is not None",
    ),
    Mutant(
        "a second cancel covers nothing",
        _CLAIM,
        "cancelled_at=max(now, lease.cancelled_at or now)",
        "cancelled_at=lease.cancelled_at or now",
    ),
    Mutant(
        "a cancelled run's stop takes what was sent meanwhile for its duplicate",
        _CLAIM,
        "    if lease.is_cancel_open:\n        return Postpone(now + _STOPPING)\n",
        "",
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
        "    if lease.has_outlived(fingerprint, message.first_sent_at):\n"
        "        return Duplicate()\n",
        "",
    ),
    Mutant(
        "a follow-on that is sent again is a request of its own",
        _CLAIM,
        "if message.is_follow_on and message.request.lineage == lease.lineage:",
        "if message.is_follow_on and lease is None:",
        also=Mutant(
            "and it is as new as its send",
            "longhaul/domain/message.py",
            "ours = {attributes.FIRST_SENT: _as_text(parent_ended_at)}",
            "ours: dict[str, str] = {}",
        ),
        test="tests/handlers/test_owed.py::test_a_follow_on_sent_twice_is_a_duplicate_of_a_job_that_has_ended",
    ),
    Mutant(
        "a producer's attributes are believed without proof",
        "longhaul/domain/message.py",
        "return before if before.chain == row.receive.chain else message",
        "return before",
    ),
    Mutant(
        "an older receive is adopted over a newer one",
        _TRANSITIONS,
        "also[Clause.NEWER_RECEIVE] = message.receive_count",
        "also.update()",
    ),
    Mutant(
        "nothing notes that a released job's message was seen",
        "longhaul/claiming.py",
        "self.context.leases.apply(transitions.note_seen(row, now))",
        "pass",
        also=Mutant(
            "nor does a sweep",
            "longhaul/sweep.py",
            "noted = self.context.leases.apply(transitions.note_seen(lease, now))",
            "noted = transitions.note_seen(lease, now).after",
        ),
    ),
    Mutant(
        "a worn-out message of a running job is not renewed",
        _DISPATCH,
        "isinstance(decision, Claim | PlanRun | Probe) and",
        "isinstance(decision, Claim | PlanRun) and",
    ),
    Mutant(
        "a worn-out message is claimed and not renewed",
        _DISPATCH,
        "isinstance(decision, Claim | PlanRun | Probe) and",
        "isinstance(decision, PlanRun | Probe) and",
    ),
    Mutant(
        "what is sent after a cancel of a commit that turns out void is its duplicate",
        "longhaul/domain/lease.py",
        "return Owed.PUBLISH in self.owed and self.is_cancelled",
        "return False",
    ),
    Mutant(
        "a cancel that is repeated takes back the time of a later one",
        _TRANSITIONS,
        "requires=_same(before) | _same_cancel(before), is_own=lambda row: row.cancelled_at",
        "requires=_same(before), is_own=lambda row: row.cancelled_at",
    ),
    Mutant(
        "a deploy that leads elsewhere makes what followed before it a forgery",
        "longhaul/lineage_check.py",
        "{*now, *(parent.leads_to or ()), *(parent.may_emit_to or ())}",
        "now",
    ),
    Mutant(
        "any overwrite replaces any other",
        "longhaul/domain/manifest.py",
        "return Switch.DUE if current.base == pending.replaces_base else Switch.REPLACED",
        "return Switch.DUE",
    ),
)
