"""Bugs about a message: how long it is hidden, and when it is deleted or given up."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_BEAT: Final = "longhaul/core/beat.py"
_CLAIM: Final = "longhaul/core/claim.py"
_DISPATCH: Final = "longhaul/core/dispatch.py"
_TRANSITIONS: Final = "longhaul/core/transitions.py"

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
        "longhaul/core/batch.py",
        "            self.context.queue.send(batch.stage.queue_url, copy)\n",
        "",
    ),
    Mutant(
        "an outage counts as an error of the message",
        "longhaul/core/aws_errors.py",
        "    if isinstance(error, ClientError):\n        return is_refused(error)",
        "    if isinstance(error, ClientError):\n        return True",
    ),
)
