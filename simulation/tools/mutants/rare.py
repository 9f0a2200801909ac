"""Bugs that only rare worlds show: late batches, stages taken out, rows that expire, long waits."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CLAIM: Final = "longhaul/domain/claim.py"
_CLASSIFY: Final = "longhaul/domain/classify.py"

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
        "a task does not know a stage that was taken out",
        "jobs/attempt.py",
        "stage = self.settings.stage_or_removed(lease.stage)",
        "stage = self.settings.stage(lease.stage)",
    ),
    Mutant(
        "the sweeper forgets a stage that was taken out",
        "longhaul/sweep.py",
        "removed = self.index.stages(names) - names",
        "removed = set()",
    ),
    Mutant(
        "a task that is cut off until its time is up has run too long",
        _CLASSIFY,
        "attempt.reported_at is not None and up_at - attempt.reported_at >= _UNHEARD",
        "attempt.reported_at is None and up_at >= attempt.progress_at + _UNHEARD",
    ),
    Mutant(
        "the row of a job that runs again expires",
        "longhaul/adapters/dynamodb/item.py",
        "    else:\n        found[TTL] =",
        "    if True:\n        found[TTL] =",
    ),
    Mutant(
        "a message is never renewed for its age",
        "longhaul/domain/message.py",
        "(now - self.sent_at).total_seconds() >= timing.renew_age_s",
        "False",
    ),
)
