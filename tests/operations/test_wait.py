"""What a row says of a message that was sent."""

from dataclasses import replace
from typing import Any

import pytest

from longhaul.core.dead_letter import Reason
from longhaul.core.descent import Lineage
from longhaul.core.lease import Lease, State
from longhaul.core.message import Message
from longhaul.operations.letter import DeadLetter
from longhaul.operations.runs import runs
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


def test_a_run_is_called_as_its_root_and_by_its_id_where_that_is_not_among_the_jobs() -> None:
    root = replace(running(), label="october")
    lineage = Lineage(root=root.key, parent=root.key)
    part = replace(running(), key="clean#1", label="part 7", lineage=lineage)
    assert [each.name for each in runs([root, part], ())] == ["october"]
    assert [each.name for each in runs([part], ())] == [root.job_id]


# Dead letters as the console reads them.


def text(value: str) -> dict[str, Any]:
    return {"dataType": "String", "stringValue": value}


@pytest.mark.parametrize(
    ("body", "reason", "label"),
    [
        ('{"output": "o", "label": "7 October"}', Reason("failed", "x"), "7 October"),
        ('{"output": "o", "label": "7 October"}', None, "7 October"),
        ('{"output": "o"}', Reason("failed", "x", label="7 October"), "7 October"),
        ('{"output": "o", "label": "\u001b[2J"}', Reason("invalid_request", "x"), None),
        ("no json", None, None),
    ],
)
def test_label_of_a_letter_is_that_of_its_body_or_of_the_run_that_died(
    body: str, reason: Reason | None, label: str | None
) -> None:
    assert DeadLetter("m", "r", NOW, Message(body, {}), reason).label == label


@pytest.mark.parametrize(
    ("body", "attribute", "job_id"),
    [
        ('{"job_id": "january", "colour": 1}', None, "january"),
        ('{"job_id": "january"}', "february", "january"),
        ('{"job_id": "../etc"}', "february", "february"),
        ('{"job_id": ["january"]}', None, None),
        ('{"job_id": "\\u001b[2J"}', None, None),
        ("[7]", None, None),
        ("no json", None, None),
        ("[" * 100_000, None, None),
        ("9" * 5_000, None, None),
    ],
)
def test_job_id_of_an_invalid_request_is_the_one_its_producer_gave(
    body: str, attribute: str | None, job_id: str | None
) -> None:
    attributes = {"job_id": text(attribute)} if attribute else {}
    letter = DeadLetter(
        "m",
        "r",
        NOW,
        Message(body, attributes),
        Reason("invalid_request", "colour: unknown"),
    )
    assert letter.job_id == job_id
