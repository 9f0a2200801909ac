"""Bugs about what a stage's `notify` is told."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_ANNOUNCING: Final = "longhaul/announcing.py"
_FINISH: Final = "longhaul/finish.py"
_NOTICE: Final = "longhaul/domain/notice.py"

NOTICES: Final = (
    Mutant(
        "a success is told before it is published",
        _FINISH,
        "if lease.attempt.published_at is None:\n    self.publication.publish(lease, until)",
        "self.announcer.ended(lease, stage, until)\n"
        "if lease.attempt.published_at is None:\n    self.publication.publish(lease, until)",
    ),
    Mutant(
        "a death is told before its dead letter",
        _FINISH,
        "self.context.queue.send(stage.dead_letter_queue_url, letter)",
        "self.announcer.ended(lease, stage, until)\n"
        "self.context.queue.send(stage.dead_letter_queue_url, letter)",
    ),
    Mutant(
        "a notice that cannot be sent is forgotten",
        _ANNOUNCING,
        "if tried_for < most:",
        "if tried_for < tried_for:",
    ),
    Mutant(
        "a repeated notice has another id",
        _NOTICE,
        "f'{lease.id.key_hash}-{lease.run}'",
        "__import__('os').urandom(8).hex()",
    ),
    Mutant(
        "a run has a start for OpenLineage, and no end",
        _ANNOUNCING,
        "for event in self._run_events(lease):\n    self._send(stage.notify, event, until)",
        "for event in self._run_events(lease)[:1]:\n    self._send(stage.notify, event, until)",
    ),
    Mutant(
        "a cancelled job is not told",
        _FINISH,
        "self.announcer.ended(lease, stage, until)",
        "if lease.state is not State.CANCELLED:\n    self.announcer.ended(lease, stage, until)",
    ),
    Mutant(
        "an invalid message is not told",
        "longhaul/batch.py",
        "self.refused.append((message_id, reason))",
        "",
    ),
    Mutant(
        "the day of a notice counts from the end of its job",
        _ANNOUNCING,
        "self._try_again_or_lose(stage, lease.key, lease.untold_at, error)",
        "self._try_again_or_lose(stage, lease.key, lease.ended_at, error)",
    ),
)
