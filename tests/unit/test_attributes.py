from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from longhaul.domain import attributes
from longhaul.domain.attributes import text, theirs_of, with_ours

OURS = {attributes.JOB_ID: "january", attributes.RENEWS: "m-1", attributes.FIRST_SENT: "1"}


def producers(count: int) -> dict[str, Any]:
    return {f"a{n}": text("x" * n) for n in range(1, count + 1)}


def test_what_has_room_travels_as_it_is() -> None:
    assert with_ours(producers(7), OURS) == {**producers(7), **{name: text(value) for name, value in OURS.items()}}


def test_no_more_attributes_than_sqs_takes_and_the_smallest_share_one() -> None:
    packed = with_ours(producers(10), OURS)
    assert len(packed) == 10
    assert {f"a{n}" for n in range(5, 11)} <= packed.keys()


@given(st.integers(min_value=0, max_value=10), st.integers(min_value=1, max_value=4))
def test_nothing_is_lost_however_often_a_message_is_renewed(count: int, renewals: int) -> None:
    theirs: Any = producers(count)
    for _ in range(renewals):
        packed = with_ours(theirs, OURS)
        assert len(packed) <= 10
        theirs = {name: value for name, value in theirs_of(packed).items() if name != attributes.JOB_ID}
    assert theirs == producers(count)


def test_a_binary_attribute_survives() -> None:
    theirs = {**producers(9), "b": {"dataType": "Binary", "binaryValue": "AA=="}}
    assert theirs_of(with_ours(theirs, OURS))["b"] == {"dataType": "Binary", "binaryValue": "AA=="}


def test_a_producers_own_attribute_of_that_name_is_left_alone() -> None:
    theirs = {attributes.MOVED: text("mine, and no JSON")}
    assert theirs_of(theirs) == theirs


def test_what_only_looks_like_moved_attributes_is_the_producers_own() -> None:
    for value in ('{"job_id": "january"}', "[" * 100_000, "[7]"):
        theirs = {attributes.MOVED: text(value)}
        assert theirs_of(theirs) == theirs
