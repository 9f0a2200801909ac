"""Bugs about the time at which a message was sent, and about its chain of copies."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CLAIM: Final = "longhaul/core/claim.py"
_LEASE: Final = "longhaul/core/lease.py"
_TRANSITIONS: Final = "longhaul/core/transitions.py"

WHEN_SENT: Final = (
    Mutant(
        "a planned job begins as soon as it comes",
        _CLAIM,
        "if start_at is not None and now < start_at:",
        "if start_at is not None and now < min(start_at, message.sent_at):",
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
        "    if lease.has_outlived(fingerprint, message.first_sent_at):\n"
        "        return Duplicate()\n",
        "",
    ),
    Mutant(
        "an older receive is adopted over a newer one",
        _TRANSITIONS,
        "also[Clause.NEWER_RECEIVE] = message.receive_count",
        "also.update()",
    ),
    Mutant(
        "nothing notes that a released job's message was seen",
        "longhaul/core/slots.py",
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
        "if self.is_refused:\n    return True",
        "",
    ),
)
