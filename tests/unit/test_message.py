"""What a received message is read as, and how long it may live."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import InvalidRequestError
from longhaul.core.message import (
    AGAIN,
    FIRST_SENT,
    JOB_ID,
    MAX_BATCH,
    MAX_BATCH_BYTES,
    MAX_DEAD_LETTER_BYTES,
    MAX_JOB_BYTES,
    MAX_THEIRS,
    RENEWS,
    Delivery,
    JobMessage,
    Message,
    follow_on,
    in_batches,
    read,
    renewal,
    require_room,
    size_of,
    size_problem,
    text,
    theirs_of,
    value_of,
    with_ours,
)
from longhaul.core.settings import LeaseSettings
from longhaul.core.store.item import deserialize, serialize
from tests.builders import NOW, body, message, stage, there

TIMING = LeaseSettings()
SENT = NOW - timedelta(minutes=1)


LINEAGE = {"root": "main#2013", "parent": "main#2013"}


def received(given: dict[str, Any] | None = None, **changes: Any) -> JobMessage:
    content = Message(body(**changes), given or {}, "tenant")
    return read(Delivery("m-1", "handle", 3, SENT, content), stage(), NOW)


@pytest.mark.parametrize(
    ("receives", "age_s", "worn_out"),
    [
        (899, 0, False),
        (900, 0, True),
        (1, 604_799, False),
        (1, 604_800, True),
    ],
)
def test_message_wears_out_by_its_receives_or_by_its_age(
    receives: int, age_s: float, *, worn_out: bool
) -> None:
    old = message(receive_count=receives, sent_at=NOW - timedelta(seconds=age_s))

    assert old.wears_out(TIMING, NOW) is worn_out


@pytest.mark.parametrize(
    ("receives", "age_s", "rarely"),
    [(1, 86_399, False), (1, 86_400, True), (0, 86_400, True), (2, 172_799, False)],
)
def test_message_that_is_received_less_than_daily_comes_rarely(
    receives: int, age_s: float, *, rarely: bool
) -> None:
    old = message(receive_count=receives, sent_at=NOW - timedelta(seconds=age_s))

    assert old.comes_rarely(TIMING, NOW) is rarely


def test_delivery_is_read_with_its_own_receive_and_times() -> None:
    came = received({"team": text("blue")})

    assert (came.message_id, came.receipt_handle, came.receive_count) == ("m-1", "handle", 3)
    assert (came.received_at, came.sent_at, came.first_sent_at) == (NOW, SENT, SENT)
    assert (came.renews, came.chain, came.is_follow_on) == (None, "m-1", False)
    assert came.content == Message(body(), {"team": text("blue")}, "tenant")


@pytest.mark.parametrize(
    ("in_body", "attribute", "key"),
    [
        ("january", None, "main#january"),
        ("january", "february", "main#january"),
        (None, "february", "main#february"),
        (None, None, "main#m-1"),
    ],
)
def test_job_has_the_id_in_its_body_else_the_attributes_else_its_messages(
    in_body: str | None, attribute: str | None, key: str
) -> None:
    given = {JOB_ID: text(attribute)} if attribute else {}
    changes = {"job_id": in_body} if in_body else {}

    assert received(given, **changes).key == key


def test_attribute_that_is_no_job_id_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="message attribute job_id"):
        received({JOB_ID: text("../other")})


EARLIER = datetime(2025, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("carried", "first_sent_at"),
    [
        ("2025-12-30T00:00:00Z", EARLIER),
        ((NOW + timedelta(days=1)).isoformat(), SENT),  # no message is older than its work
        ("0001-01-01T00:00:00+23:59", SENT),
        ("0900-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ("9" * 40, SENT),
        ("", SENT),
    ],
)
def test_work_is_as_old_as_its_message_says_and_never_younger_than_the_message(
    carried: str, first_sent_at: datetime
) -> None:
    assert received({FIRST_SENT: text(carried)}).first_sent_at == first_sent_at


@pytest.mark.parametrize(
    ("renews", "lineage", "chain", "is_follow_on"),
    [
        (None, LINEAGE, "m-1", True),
        ("m-0", LINEAGE, "m-0", False),
        ("x" * 100, LINEAGE, "x" * 100, False),
        (None, None, "m-1", False),
    ],
)
def test_message_with_a_first_time_and_a_lineage_is_a_copy_or_else_a_follow_on(
    renews: str | None, lineage: dict[str, str] | None, chain: str, *, is_follow_on: bool
) -> None:
    given = {FIRST_SENT: text(EARLIER.isoformat())}
    if renews:
        given[RENEWS] = text(renews)

    came = received(given, lineage=lineage)

    assert (came.renews, came.chain, came.is_follow_on) == (renews, chain, is_follow_on)


def test_copy_carries_its_chain_its_job_and_the_time_of_its_work() -> None:
    content = Message(body(), {"team": text("blue")}, "tenant")

    copy = renewal(content, "m-0", "main#a/b#c", EARLIER)

    assert copy == Message(
        body(),
        {
            "team": text("blue"),
            JOB_ID: text("a/b#c"),
            FIRST_SENT: text(EARLIER.isoformat()),
            RENEWS: text("m-0"),
        },
        "tenant",
    )


def test_follow_on_is_as_old_as_the_end_of_its_parent_and_in_its_group() -> None:
    assert follow_on("{}", EARLIER, "tenant") == Message(
        "{}", {FIRST_SENT: text(EARLIER.isoformat())}, "tenant"
    )


def test_size_counts_the_body_and_names_types_and_values_of_attributes_in_bytes() -> None:
    given = {
        "é": text("ab"),  # 2 bytes of name, 6 of type, 2 of value
        "b": {"dataType": "Binary", "binaryValue": "A" * 12},  # 1, 6, and 9 for twelve of base64
        "c": {"dataType": "String", "stringValue": None},  # 1, 6
    }

    assert size_of(Message("äbc", given)) == 4 + 10 + 16 + 7
    assert MAX_DEAD_LETTER_BYTES - MAX_JOB_BYTES == 16_384


# What a copy gets: job_id of 128, first_sent of 32, renews of 100, with names and types.
COPYS_OWN = 6 + 128 + 6 + 19 + 32 + 6 + 15 + 100 + 6 + len("longhaul_again") + 6 + 15 + 5
# What a dead letter gets: an explanation of 8 KiB, and job_id.
LETTERS_OWN = 8 + 8_192 + 6 + 6 + 128 + 6


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        (MAX_JOB_BYTES, MAX_JOB_BYTES - COPYS_OWN),
        (MAX_DEAD_LETTER_BYTES, MAX_DEAD_LETTER_BYTES - LETTERS_OWN),
    ],
)
def test_message_must_leave_room_for_what_its_copy_and_its_dead_letter_get(
    limit: int, most: int
) -> None:
    assert size_problem(Message("x" * most, {}), limit) is None
    problem = there(size_problem(Message("x" * (most + 1), {}), limit))
    assert problem.startswith("the message is 1 bytes too long")


def test_message_without_room_is_an_invalid_request() -> None:
    require_room(Message(body(), {}))
    with pytest.raises(InvalidRequestError, match="bytes too long"):
        require_room(Message("x" * MAX_JOB_BYTES, {}))


def test_message_that_renews_another_names_the_objects_of_its_own_id() -> None:
    copy = replace(message(), renews="m-0")

    assert copy.request_ref.endswith("/m-1.json")
    assert copy.chain == "m-0"


# Messages in batches that SQS takes in one call.


@pytest.mark.parametrize(
    ("weights", "sizes"),
    [
        ([], []),
        ([1], [1]),
        ([1] * MAX_BATCH, [MAX_BATCH]),
        ([1] * (MAX_BATCH + 1), [MAX_BATCH, 1]),
        ([MAX_BATCH_BYTES - 1, 1], [2]),
        ([MAX_BATCH_BYTES - 1, 2], [1, 1]),
        ([MAX_BATCH_BYTES + 1], [1]),
        ([MAX_BATCH_BYTES, MAX_BATCH_BYTES - 1, 1], [1, 2]),
        ([MAX_BATCH_BYTES, MAX_BATCH_BYTES - 1, 2], [1, 1, 1]),
    ],
)
def test_batch_ends_before_it_is_too_long_or_too_heavy(
    weights: list[int], sizes: list[int]
) -> None:
    batches = list(in_batches(weights, lambda weight: weight))

    assert [len(batch) for batch in batches] == sizes
    assert [weight for batch in batches for weight in batch] == weights


# The attributes of a message, ours and its producer's, and values as DynamoDB types them.


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


VALUES = ["", "ü", 0, 7, -3, 10**37, True, None, ["a", 1], {"a": {"b": 2}}, {1, 2}, {"x"}]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_typed_as_boto3_types_it(value: object) -> None:
    assert serialize(value) == TypeSerializer().serialize(value)


@pytest.mark.parametrize("value", [*VALUES, Decimal("1.5"), Decimal(-3)])
def test_a_typed_value_is_read_as_boto3_reads_it(value: object) -> None:
    typed = TypeSerializer().serialize(value)

    assert deserialize(typed) == TypeDeserializer().deserialize(typed) == value
