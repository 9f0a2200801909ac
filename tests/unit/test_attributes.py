from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.message import (
    AGAIN,
    FIRST_SENT,
    JOB_ID,
    MAX_THEIRS,
    RENEWS,
    Message,
    size_problem,
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


def test_of_more_attributes_than_sqs_takes_the_first_stay_beside_ours() -> None:
    kept = with_ours(producers(10), OURS)
    assert len(kept) == 10
    assert kept.keys() == {*OURS, *producers(7)}


@given(st.integers(min_value=0, max_value=MAX_THEIRS), st.integers(min_value=1, max_value=4))
def test_repeated_renewals_lose_no_attribute(count: int, renewals: int) -> None:
    theirs: Any = producers(count)
    for _ in range(renewals):
        packed = with_ours(theirs, OURS | {AGAIN: "1"})
        theirs = {name: value for name, value in theirs_of(packed).items() if name != JOB_ID}
    assert theirs == producers(count)


@pytest.mark.parametrize("count", [MAX_THEIRS, MAX_THEIRS + 1])
def test_a_message_with_more_attributes_than_a_copy_has_room_for_starts_no_run(count: int) -> None:
    problem = size_problem(Message("{}", {JOB_ID: text("january"), **producers(count)}))
    assert (problem is not None) is (count > MAX_THEIRS)


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
    theirs = {**producers(5), "b": {"dataType": "Binary", "binaryValue": "AA=="}}
    assert theirs_of(with_ours(theirs, OURS))["b"] == {"dataType": "Binary", "binaryValue": "AA=="}


VALUES = ["", "ü", 0, 7, -3, 10**37, True, None, ["a", 1], {"a": {"b": 2}}, {1, 2}, {"x"}]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_typed_as_boto3_types_it(value: object) -> None:
    assert serialize(value) == TypeSerializer().serialize(value)


@pytest.mark.parametrize("value", [*VALUES, Decimal("1.5"), Decimal(-3)])
def test_a_typed_value_is_read_as_boto3_reads_it(value: object) -> None:
    typed = TypeSerializer().serialize(value)

    assert deserialize(typed) == TypeDeserializer().deserialize(typed) == value
