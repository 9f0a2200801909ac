"""What a row says of a message that was sent."""

from dataclasses import replace
from typing import Any

import pytest

from longhaul.core.lease import Lease, State
from longhaul.operations.wait import Awaited, Standing, standing
from tests.builders import NOW, running

OURS = running(fingerprint="ours")
DEAD = replace(OURS, state=State.DEAD, settled_attempt=1, settled_at=NOW)
STOPPING = replace(OURS, cancel_requested_at=NOW, cancelled_at=NOW)
REFUSED = replace(DEAD, execution_input="")
NEW_RUN: dict[str, Any] = {"run": OURS.run + 1}


def done(row: Lease, *, conflict: bool = False) -> Standing:
    return Standing(OURS.key, row, done=True, conflict=conflict)


def open_(row: Lease | None) -> Standing:
    return Standing(OURS.key, row, done=False)


@pytest.mark.parametrize(
    ("before", "row", "found"),
    [
        (None, None, open_(None)),
        (None, OURS, open_(OURS)),
        (None, DEAD, done(DEAD)),
        # The row is still that of the old run: the new one is queued.
        (DEAD, DEAD, open_(None)),
        (DEAD, replace(OURS, **NEW_RUN), open_(replace(OURS, **NEW_RUN))),
        (DEAD, replace(DEAD, **NEW_RUN), done(replace(DEAD, **NEW_RUN))),
        (STOPPING, STOPPING, open_(None)),
        (STOPPING, replace(STOPPING, state=State.CANCELLED), open_(None)),
        # A cancel has covered what was sent again.
        (DEAD, replace(DEAD, cancelled_at=NOW), Standing(OURS.key, None, done=True)),
        # Of other work a refusal ends nothing but itself; a run has the id.
        (None, replace(REFUSED, fingerprint="theirs"), open_(None)),
        (None, REFUSED, done(REFUSED)),
        (
            None,
            replace(OURS, fingerprint="theirs"),
            done(replace(OURS, fingerprint="theirs"), conflict=True),
        ),
    ],
)
def test_a_message_has_its_outcome_by_the_row_of_its_own_run(
    before: Lease | None, row: Lease | None, found: Standing
) -> None:
    assert standing(Awaited(OURS.key, "ours", before), row) == found
