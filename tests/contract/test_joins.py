"""`ports.Joins` on DynamoDB: arrivals of the jobs of a fan-out are counted."""

import random
from dataclasses import replace
from typing import Any

import pytest

from longhaul.adapters.dynamodb.joins import DynamoJoins
from longhaul.domain.follow_ons import Join, Replaced
from longhaul.domain.lineage import Lineage
from simulation.aws.clock import VirtualClock
from simulation.aws.cloud import FakeAws
from tests.builders import NOW
from tests.contract.conftest import Aws, create_leases_table


@pytest.fixture
def joins(aws: Aws, table: str) -> DynamoJoins:
    return of(aws.client("dynamodb"), table)


def of(client: Any, table: str) -> DynamoJoins:
    return DynamoJoins(client, table, VirtualClock(NOW), random.Random(0))


JOIN = Join("delays", "months#1", 5, Lineage(root="months#1", parent="months#1"), "clean")


def success(
    *path: tuple[str, int], output: str | None = None, join: Join = JOIN, **by: int
) -> Replaced:
    return Replaced(join, path, by, output)


def test_join_is_complete_when_each_job_that_took_the_place_of_another_has_arrived(
    joins: DynamoJoins,
) -> None:
    assert joins.note_success(success(clean=1, split=2), NOW) is None
    assert joins.note_success(success(("split", 1), clean=2), NOW) is None
    assert joins.note_success(success(("split", 1), ("clean", 1), output="s3://b/11/"), NOW) is None
    assert joins.note_success(success(("split", 0)), NOW) is None  # it led to none
    assert joins.note_success(success(("clean", 0), output="s3://b/0/"), NOW) is None

    found = joins.note_success(success(("split", 1), ("clean", 0), output="s3://b/10/"), NOW)

    assert found == ["s3://b/0/", "s3://b/10/", "s3://b/11/"]


def test_job_that_led_to_none_completes_its_join_at_once(joins: DynamoJoins) -> None:
    assert joins.note_success(success(), NOW) == []


def test_repeated_success_changes_nothing_and_the_last_returns_the_outputs_again(
    joins: DynamoJoins,
) -> None:
    for _ in range(3):
        assert joins.note_success(success(clean=2), NOW) is None
    for _ in range(3):
        assert joins.note_success(success(("clean", 1), output="s3://b/1/"), NOW) is None
    for _ in range(2):
        found = joins.note_success(success(("clean", 0), output="s3://b/0/"), NOW)
        assert found == ["s3://b/0/", "s3://b/1/"]


def test_job_that_nothing_counted_led_to_changes_nothing(joins: DynamoJoins) -> None:
    assert joins.note_success(success(("clean", 0), output="s3://b/0/"), NOW) is None
    joins.note_success(success(clean=1), NOW)
    # Of a later run of the opener, which led to more.
    assert joins.note_success(success(("clean", 1), output="s3://b/1/"), NOW) is None
    assert joins.note_success(success(("other", 0), output="s3://b/x/"), NOW) is None

    assert joins.note_success(success(("clean", 0), output="s3://b/0/"), NOW) == ["s3://b/0/"]


def test_joins_of_two_runs_are_counted_apart(joins: DynamoJoins) -> None:
    joins.note_success(success(clean=2), NOW)
    again = replace(JOIN, run=6)
    joins.note_success(success(clean=1, join=again), NOW)

    found = joins.note_success(success(("clean", 0), output="s3://b/0/", join=again), NOW)

    assert found == ["s3://b/0/"]


def test_what_a_join_waits_for_outlives_the_rows_by_years(fake: FakeAws) -> None:
    table = create_leases_table(fake.dynamodb)
    of(fake.dynamodb, table).note_success(success(clean=1), NOW)

    lives = [
        int(row.item["ttl"]["N"]) for row in fake.dynamodb.tables[table].rows.values() if row.item
    ]

    assert len(lives) == 2
    assert min(lives) > NOW.timestamp() + 5 * 365 * 86_400


def test_last_arrival_returns_every_output(joins: DynamoJoins) -> None:
    assert joins.arrive("join#delays#months#1@5", 2, 3, "s3://b/2/", NOW) is None
    assert joins.arrive("join#delays#months#1@5", 0, 3, "s3://b/0/", NOW) is None
    found = joins.arrive("join#delays#months#1@5", 1, 3, "s3://b/1/", NOW)
    assert found == {0: "s3://b/0/", 1: "s3://b/1/", 2: "s3://b/2/"}


def test_repeated_arrival_counts_once_and_the_last_returns_the_outputs_again(
    joins: DynamoJoins,
) -> None:
    for _ in range(3):
        assert joins.arrive("join#delays#months#1@5", 0, 2, "s3://b/0/", NOW) is None
    for _ in range(2):
        assert joins.arrive("join#delays#months#1@5", 1, 2, "s3://b/1/", NOW) == {
            0: "s3://b/0/",
            1: "s3://b/1/",
        }


def test_arrivals_of_two_groups_are_counted_apart(joins: DynamoJoins) -> None:
    joins.arrive("join#delays#months#1@5", 0, 2, "s3://b/0/", NOW)
    assert joins.arrive("join#delays#months#1@6", 1, 2, "s3://b/1/", NOW) is None
    assert joins.arrive("join#delays#months#2@5", 0, 1, "s3://c/0/", NOW) == {0: "s3://c/0/"}


def test_large_group_is_read_in_pages(fake: FakeAws) -> None:
    """DynamoDB returns at most 1 MiB in a page."""
    joins = of(fake.dynamodb, create_leases_table(fake.dynamodb))
    for n in range(1_200):
        found = joins.arrive("join#delays#months#1@5", n, 1_200, f"s3://b/{'x' * 900}/{n}/", NOW)
    assert found is not None
    assert (len(found), found[1_199][-6:]) == (1_200, "/1199/")
