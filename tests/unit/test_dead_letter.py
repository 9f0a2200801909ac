import json
from datetime import UTC, datetime
from typing import Any

import pytest

from longhaul.domain.dead_letter import DeadLetter, Reason, dead_letter
from longhaul.domain.message import MessageContent

NOW = datetime(2026, 1, 2, tzinfo=UTC)
REASON = Reason(kind="failed", reason="exit code 1", key="main#january", run=1, attempts=3, failures=3)


def text(value: str) -> dict[str, Any]:
    return {"dataType": "String", "stringValue": value}


def explanation(message: MessageContent) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(message.attributes["longhaul"]["stringValue"])
    return document


def test_a_dead_letter_keeps_body_attributes_and_group_and_says_why() -> None:
    letter = dead_letter(MessageContent("body", {"tenant": text("a")}, "group"), REASON)
    assert (letter.body, letter.group_id, letter.attributes["tenant"]) == ("body", "group", text("a"))
    assert explanation(letter) == {
        "class": "failed",
        "reason": "exit code 1",
        "key": "main#january",
        "run": 1,
        "attempts": 3,
        "failures": 3,
        "interruptions": 0,
    }


def test_a_dead_letter_carries_its_job_id_so_that_a_redrive_finds_its_key() -> None:
    assert dead_letter(MessageContent("body", {}), REASON).attributes["job_id"] == text("january")
    kept = dead_letter(MessageContent("body", {"job_id": text("mine")}), REASON)
    assert kept.attributes["job_id"] == text("mine")


def test_an_invalid_message_gets_no_job_id() -> None:
    assert set(dead_letter(MessageContent("body", {}), Reason("invalid_request", "not JSON")).attributes) == {
        "longhaul"
    }


def test_an_old_explanation_is_replaced_when_a_redriven_job_dies_again() -> None:
    first = dead_letter(MessageContent("body", {}), REASON)
    again = dead_letter(
        MessageContent(first.body, first.attributes), Reason("stalled", "no progress", "main#january", 2)
    )
    assert explanation(again)["class"] == "stalled"


def test_the_longest_explanation_stays_below_8_kib() -> None:
    longest = Reason("failed", "\N{SNOWMAN}" * 800, "main#" + "x" * 128, 1, 9, 9, 9, "x" * 200, "x" * 200, "x" * 30)
    assert len(longest.to_json()) < 8_192


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
def test_an_invalid_letter_is_found_by_the_id_that_its_producer_gave_it(
    body: str, attribute: str | None, job_id: str | None
) -> None:
    attributes = {"job_id": text(attribute)} if attribute else {}
    letter = DeadLetter("m", "r", NOW, MessageContent(body, attributes), Reason("invalid_request", "colour: unknown"))
    assert letter.job_id == job_id
