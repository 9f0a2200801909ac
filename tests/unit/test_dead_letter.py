import json
from typing import Any

from longhaul.domain.dead_letter import Reason, dead_letter
from longhaul.domain.message import MessageContent

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


def test_no_more_attributes_than_sqs_takes_and_none_is_lost() -> None:
    theirs = {f"a{n}": text("x" * n) for n in range(1, 11)}
    letter = dead_letter(MessageContent("body", theirs), REASON)
    assert len(letter.attributes) == 10
    assert explanation(letter)["moved_attributes"] == {"a1": text("x"), "a2": text("xx")}


def test_an_attribute_too_large_to_move_is_named() -> None:
    letter = dead_letter(MessageContent("body", {f"a{n}": text("x" * 9_000) for n in range(10)}), REASON)
    assert len(explanation(letter)["dropped_attributes"]) == 2
    assert len(letter.attributes["longhaul"]["stringValue"]) <= 8_100


def test_an_old_explanation_is_replaced_when_a_redriven_job_dies_again() -> None:
    first = dead_letter(MessageContent("body", {}), REASON)
    again = dead_letter(
        MessageContent(first.body, first.attributes), Reason("stalled", "no progress", "main#january", 2)
    )
    assert explanation(again)["class"] == "stalled"
