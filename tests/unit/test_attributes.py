import json
from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.message import (
    EXPLANATION,
    FIRST_SENT,
    JOB_ID,
    MOVED,
    RENEWS,
    text,
    theirs_of,
    value_of,
    with_ours,
)
from longhaul.core.store.item import deserialize, serialize

OURS = {JOB_ID: "january", RENEWS: "m-1", FIRST_SENT: "1"}


def producers(count: int) -> dict[str, Any]:
    return {f"a{n}": text("x" * n) for n in range(1, count + 1)}


def test_attributes_within_the_limit_are_sent_unchanged() -> None:
    assert with_ours(producers(7), OURS) == {
        **producers(7),
        **{name: text(value) for name, value in OURS.items()},
    }


def test_attributes_beyond_the_sqs_limit_share_one_and_the_smallest_move_first() -> None:
    packed = with_ours(producers(10), OURS)
    assert len(packed) == 10
    assert {f"a{n}" for n in range(5, 11)} <= packed.keys()


@given(st.integers(min_value=0, max_value=10), st.integers(min_value=1, max_value=4))
def test_repeated_renewals_lose_no_attribute(count: int, renewals: int) -> None:
    theirs: Any = producers(count)
    for _ in range(renewals):
        packed = with_ours(theirs, OURS)
        assert len(packed) <= 10
        theirs = {name: value for name, value in theirs_of(packed).items() if name != JOB_ID}
    assert theirs == producers(count)


def test_what_is_moved_is_packed_without_spaces_and_nothing_else_changes() -> None:
    theirs = {"small": text("1"), **producers(10), "a1": text("much larger")}
    packed = with_ours({name: theirs[name] for name in list(theirs)[:10]}, {RENEWS: "m-1"})
    assert packed[MOVED] == text(
        '{"small":{"dataType":"String","stringValue":"1"},'
        '"a2":{"dataType":"String","stringValue":"xx"}}'
    )
    assert len(packed) == 10
    assert packed[RENEWS] == text("m-1")


def test_text_of_an_attribute_is_read_and_nothing_else_of_it() -> None:
    theirs = {"t": text("x"), "b": {"dataType": "Binary", "binaryValue": "AA=="}}
    assert [value_of(theirs, name) for name in ("t", "b", "absent")] == ["x", None, None]
    assert value_of({"t": {"stringValue": 7}}, "t") is None


def test_ours_win_a_clash_of_names() -> None:
    theirs = {RENEWS: text("theirs"), "a": text("x")}
    assert with_ours(theirs, {RENEWS: "m-1"}) == {
        RENEWS: text("m-1"),
        "a": text("x"),
    }


def test_binary_attribute_survives() -> None:
    theirs = {**producers(9), "b": {"dataType": "Binary", "binaryValue": "AA=="}}
    assert theirs_of(with_ours(theirs, OURS))["b"] == {"dataType": "Binary", "binaryValue": "AA=="}


def test_attribute_of_the_producer_with_our_name_is_left_alone() -> None:
    theirs = {MOVED: text("mine, and no JSON")}
    assert theirs_of(theirs) == theirs


def test_json_that_only_resembles_moved_attributes_is_left_alone() -> None:
    partly = json.dumps({"x": text("x"), "y": {}})
    for value in ('{"job_id": "january"}', "[" * 100_000, "[7]", partly):
        theirs = {MOVED: text(value)}
        assert theirs_of(theirs) == theirs


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", {}),
        ("x", {"dataType": "String"}),
        ("x", {"dataType": "String", "stringValue": ""}),
        ("x", {"dataType": "String", "stringValue": "\u0000"}),
        ("x", {"dataType": "String", "stringValue": 7}),
        ("x", {"dataType": "Number", "stringValue": "seven"}),
        ("x", {"dataType": "Number.mine", "stringValue": "seven"}),
        ("x", {"dataType": "Binary", "binaryValue": "no base64"}),
        ("x", {"dataType": "Binary", "stringValue": "x"}),
        ("x", {"dataType": "List", "stringValue": "x"}),
        ("x", {"dataType": "String", "stringValue": "x", "binaryValue": "AA=="}),
        ("x", {"dataType": "Binary", "binaryValue": "AA==", "stringValue": "x"}),
        ("x", {"dataType": "Binary", "binaryValue": ""}),
        ("a..b", {"dataType": "String", "stringValue": "x"}),
        ("", {"dataType": "String", "stringValue": "x"}),
        ("AWS.x", {"dataType": "String", "stringValue": "x"}),
        ("aws.x", {"dataType": "String", "stringValue": "x"}),
        ("amazon.x", {"dataType": "String", "stringValue": "x"}),
        (".x", {"dataType": "String", "stringValue": "x"}),
        ("x.", {"dataType": "String", "stringValue": "x"}),
        ("x", {"dataType": "Number", "stringValue": "\u0667"}),  # a digit, but not ASCII
        ("x", {"dataType": "Number", "stringValue": "7", "binaryValue": "AA=="}),
        ("x", {"dataType": 7, "stringValue": "x"}),
        ("x", {"stringValue": "x"}),
        ("x", {"dataType": "Binary", "binaryValue": 7}),
        ("x", ["dataType", "stringValue"]),
        (FIRST_SENT, {"dataType": "String", "stringValue": "1"}),
        (EXPLANATION, {"dataType": "String", "stringValue": "{}"}),
        ("a b", {"dataType": "String", "stringValue": "x"}),
        ("x" * 257, {"dataType": "String", "stringValue": "x"}),
        (RENEWS, {"dataType": "String", "stringValue": "m-1"}),
    ],
)
def test_what_sqs_would_not_take_is_never_unpacked(name: str, value: object) -> None:
    theirs = {MOVED: text(json.dumps({name: value}))}
    assert theirs_of(theirs) == theirs


@pytest.mark.parametrize(
    "value",
    [
        {"dataType": "String", "stringValue": "x"},
        {"dataType": "String.mine", "stringValue": "x"},
        {"dataType": "Number", "stringValue": "-1.5e3"},
        {"dataType": "Number", "stringValue": "+1E-3"},
        {"dataType": "Binary", "binaryValue": "AA=="},
        {"dataType": "Binary.mine", "binaryValue": "AA=="},
    ],
    ids=str,
)
def test_what_sqs_takes_is_unpacked(value: dict[str, Any]) -> None:
    packed = {MOVED: text(json.dumps({"x": value}))}
    assert theirs_of(packed) == {"x": value}


def test_large_attribute_of_the_producer_with_our_name_is_moved_and_not_replaced() -> None:
    theirs = {**producers(9), MOVED: text("mine, and no JSON" * 10)}
    assert theirs_of(with_ours(theirs, {RENEWS: "m-1"})) == theirs


VALUES = ["", "ü", 0, 7, -3, 10**37, True, None, ["a", 1], {"a": {"b": 2}}, {1, 2}, {"x"}]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_typed_as_boto3_types_it(value: object) -> None:
    assert serialize(value) == TypeSerializer().serialize(value)


@pytest.mark.parametrize("value", [*VALUES, Decimal("1.5"), Decimal(-3)])
def test_a_typed_value_is_read_as_boto3_reads_it(value: object) -> None:
    typed = TypeSerializer().serialize(value)

    assert deserialize(typed) == TypeDeserializer().deserialize(typed) == value
