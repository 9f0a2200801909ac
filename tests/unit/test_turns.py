"""Whose turn it is among a stage's tenants."""

from datetime import timedelta

import pytest

from longhaul.domain.turns import Turns, tenant_of
from tests.builders import NOW

SECOND = timedelta(seconds=1)
KNOWN = timedelta(days=1)
FRESH = timedelta(seconds=60)
RENEWED = timedelta(seconds=10)
LOOKS = timedelta(seconds=15)
AN_HOUR_AGO = NOW - timedelta(hours=1)


def turns(*, claimed: dict[str, int], waited: dict[str, int] | None = None) -> Turns:
    """Seconds ago, by tenant."""
    return Turns(
        {tenant: NOW - s * SECOND for tenant, s in claimed.items()},
        {tenant: NOW - s * SECOND for tenant, s in (waited or {}).items()},
    )


@pytest.mark.parametrize(
    ("known", "tenants", "free", "expected"),
    [
        # Without others: the first ones.
        (Turns(), "aaa", 2, [0, 1]),
        (Turns(), "aa", 5, [0, 1]),
        (turns(claimed={"a": 1}), "aaa", 2, [0, 1]),
        # The tenants of one batch alternate, whose claim is the longest ago first.
        (turns(claimed={"a": 9, "b": 1}), "bbaab", 3, [0, 2, 3]),
        (turns(claimed={"a": 1}), "aab", 1, [2]),
        # A tenant that waits elsewhere goes first, unless its claim is the later one.
        (turns(claimed={"a": 1}, waited={"b": 1}), "aaa", 3, []),
        (turns(claimed={"a": 9, "b": 1}, waited={"b": 1}), "aaa", 3, [0]),
        # Its mark is old: it has gone away.
        (turns(claimed={"a": 1}, waited={"b": 60}), "aaa", 3, [0, 1, 2]),
        # The batch has a message of it.
        (turns(claimed={"a": 1}, waited={"b": 1}), "aab", 2, [0, 2]),
    ],
)
def test_who_takes_the_free_slots(
    known: Turns, tenants: str, free: int, expected: list[int]
) -> None:
    assert known.in_turn(tenants, free, 10, NOW) == expected


def test_a_mark_keeps_half_of_the_slots_free_and_no_more() -> None:
    known = turns(claimed={"a": 1}, waited={"b": 1})

    stages = ((20, 20), (11, 20), (10, 20), (21, 21), (1, 1), (1, 2), (2, 2))
    found = [len(known.in_turn("a" * 20, free, slots, NOW)) for free, slots in stages]

    assert found == [10, 1, 0, 10, 0, 0, 1]


def test_of_many_tenants_a_quarter_may_go_at_once() -> None:
    names = [f"t{n}" for n in range(8)]
    known = turns(
        claimed={name: 50 - n for n, name in enumerate(names)}, waited=dict.fromkeys(names, 1)
    )

    allowed = [name for name in names if known.in_turn([name], 1, 10, NOW)]

    assert allowed == ["t0", "t1"]


def test_a_tenant_is_there_for_a_day_after_its_claim_and_for_a_minute_after_its_mark() -> None:
    for known in (Turns({"b": NOW - KNOWN + SECOND}), Turns({}, {"b": NOW - FRESH + SECOND})):
        assert known.has_others("a", NOW)
        assert not known.has_others("a", NOW + SECOND)
        assert not known.has_others("b", NOW)


def test_of_two_tenants_that_wait_for_each_other_one_may_go() -> None:
    for known in (
        turns(claimed={"a": 2, "b": 1}, waited={"a": 0, "b": 0}),
        turns(claimed={"a": 1, "b": 2}, waited={"a": 0, "b": 0}),
    ):
        assert bool(known.in_turn("a", 1, 10, NOW)) is not bool(known.in_turn("b", 1, 10, NOW))


def test_a_lone_tenant_leaves_no_mark() -> None:
    assert not Turns().is_to_mark("a", NOW)
    assert not turns(claimed={"a": 1}, waited={"a": 99}).is_to_mark("a", NOW)
    assert turns(claimed={"b": 1}).is_to_mark("a", NOW)
    assert not Turns({"b": NOW - KNOWN}).is_to_mark("a", NOW)


def test_a_mark_is_renewed_in_time_to_stay_fresh() -> None:
    known = Turns({"b": AN_HOUR_AGO}, {"a": NOW})
    assert not known.is_to_mark("a", NOW + RENEWED - SECOND)
    assert known.is_to_mark("a", NOW + RENEWED)
    assert RENEWED + 2 * LOOKS < FRESH


def test_after_a_claim_a_mark_lasts_for_one_more_look() -> None:
    known = Turns({"a": AN_HOUR_AGO}, {"b": NOW})
    mark = known.mark_after_claim("b", NOW)
    assert mark is not None
    after = Turns({"a": AN_HOUR_AGO, "b": AN_HOUR_AGO - SECOND}, {"b": mark})
    assert after.in_turn("a", 1, 10, NOW + LOOKS - SECOND) == []
    assert after.in_turn("a", 1, 10, NOW + LOOKS) == [0]
    assert known.mark_after_claim("a", NOW) is None
    assert known.mark_after_claim("b", NOW + FRESH) is None


def test_tenants_have_few_short_names() -> None:
    names = {tenant_of(f"customer-{n}") for n in range(1_000)}
    assert names == {f"{n:02}" for n in range(32)}
    assert tenant_of(None) not in names
