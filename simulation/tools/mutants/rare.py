"""Bugs that only rare worlds show: late batches, stages taken out, rows that expire, long waits."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CLAIM: Final = "longhaul/core/claim.py"

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
