import json
from datetime import timedelta
from typing import Any

from longhaul.core.dead_letter import Reason, dead_letter, reason_of, refusal
from longhaul.core.message import Message
from tests.builders import NOW, changed, running

REASON = Reason(
    kind="failed", reason="exit code 1", key="main#january", run=1, attempts=3, failures=3
)


def text(value: str) -> dict[str, Any]:
    return {"dataType": "String", "stringValue": value}


def explanation(message: Message) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(message.attributes["longhaul"]["stringValue"])
    return document


def test_dead_letter_keeps_body_attributes_and_group_and_gives_the_reason() -> None:
    letter = dead_letter(Message("body", {"tenant": text("a")}, "group"), REASON)
    assert (letter.body, letter.group_id, letter.attributes["tenant"]) == (
        "body",
        "group",
        text("a"),
    )
    assert explanation(letter) == {
        "class": "failed",
        "reason": "exit code 1",
        "key": "main#january",
        "run": 1,
        "attempts": 3,
        "failures": 3,
        "interruptions": 0,
    }


def test_dead_letter_carries_its_job_id_so_that_a_redrive_finds_its_key() -> None:
    assert dead_letter(Message("body", {}), REASON).attributes["job_id"] == text("january")
    kept = dead_letter(Message("body", {"job_id": text("mine")}), REASON)
    assert kept.attributes["job_id"] == text("mine")


def test_invalid_message_gets_no_job_id() -> None:
    letter = dead_letter(Message("body", {}), Reason("invalid_request", "not JSON"))
    assert set(letter.attributes) == {"longhaul"}
    assert explanation(letter) == {
        "class": "invalid_request",
        "reason": "not JSON",
        "attempts": 0,
        "failures": 0,
        "interruptions": 0,
    }


def test_reason_says_to_the_second_when_the_work_was_asked_for() -> None:
    sent_at, first_sent = NOW + timedelta(milliseconds=5), "2026-01-02T03:04:05+00:00"
    assert refusal("conflicting_job_id", "other work", sent_at, "main#a") == Reason(
        "conflicting_job_id", "other work", "main#a", first_sent=first_sent
    )
    assert (
        reason_of(changed(running(), first_sent_at=sent_at), "arn", None).first_sent == first_sent
    )


def test_redriven_job_that_dies_again_gets_a_new_explanation() -> None:
    first = dead_letter(Message("body", {}), REASON)
    again = dead_letter(
        Message(first.body, first.attributes),
        Reason("stalled", "no progress", "main#january", 2),
    )
    assert explanation(again)["class"] == "stalled"


def test_longest_explanation_stays_below_8_kib() -> None:
    longest = Reason(
        "failed",
        "\N{SNOWMAN}" * 800,
        "main#" + "x" * 128,
        1,
        9,
        9,
        9,
        "x" * 200,
        "x" * 200,
        "x" * 30,
        "\N{ROCKET}" * 100,
        {"day": "\N{ROCKET}" * 100},
    )
    assert len(longest.to_json()) < 8_192
