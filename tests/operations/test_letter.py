"""Dead letters as the console reads them."""

from typing import Any

import pytest

from longhaul.core.dead_letter import Reason
from longhaul.core.message import Message
from longhaul.operations.letter import DeadLetter
from tests.builders import NOW


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
