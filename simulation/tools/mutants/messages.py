"""Bugs about a message: how long it is hidden, and when it is deleted or given up."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_BEAT: Final = "longhaul/domain/beat.py"
_CLAIM: Final = "longhaul/domain/claim.py"
_DISPATCH: Final = "longhaul/dispatch.py"
_TRANSITIONS: Final = "longhaul/domain/transitions.py"

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
        '"receipt_handle": before.receipt_handle',
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
        "longhaul/heartbeat.py",
        "            self._undo(lease, handle, error.current)\n",
        "",
    ),
    Mutant(
        "the policy is judged at every attempt",
        _DISPATCH,
        "starts_run and not self._is_allowed(message, row, batch)",
        "not self._is_allowed(message, row, batch)",
    ),
    Mutant(
        "conflicting work is dropped as a duplicate",
        _CLAIM,
        "return Conflict(lease)",
        "return Duplicate()",
    ),
    Mutant(
        "a worn-out message is deleted without a copy",
        "longhaul/batch.py",
        "            self.context.queue.send(batch.stage.queue_url, copy)\n",
        "",
    ),
    Mutant(
        "what fails again and again is never given up",
        "longhaul/domain/poison.py",
        "IN_A_ROW: Final = timedelta(hours=1)",
        "IN_A_ROW: Final = timedelta(0)",
        test="tests/handlers/test_poison.py"
        "::test_a_message_whose_claim_always_fails_is_dead_lettered",
    ),
    Mutant(
        "an outage counts as an error of the message",
        "longhaul/adapters/errors.py",
        "    if isinstance(error, ClientError):\n        return is_refused(error)",
        "    if isinstance(error, ClientError):\n        return True",
    ),
    Mutant(
        "attributes that only resemble ours are unpacked",
        "longhaul/domain/attributes.py",
        "not all(map(_is_attribute, moved, moved.values()))",
        "False",
        also=Mutant(
            "and errors are never too many",
            "longhaul/domain/poison.py",
            "MAX_ERRORS: Final = 10",
            "MAX_ERRORS: Final = 10**9",
        ),
    ),
)
