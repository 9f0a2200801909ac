"""`ports.Joins` on DynamoDB: arrivals of the jobs of a fan-out are counted."""

import pytest

from longhaul.adapters.dynamodb.joins import DynamoJoins
from simulation.aws.cloud import FakeAws
from tests.builders import NOW
from tests.contract.conftest import Aws, create_leases_table


@pytest.fixture
def joins(aws: Aws, table: str) -> DynamoJoins:
    return DynamoJoins(aws.client("dynamodb"), table)


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
    joins = DynamoJoins(fake.dynamodb, create_leases_table(fake.dynamodb))
    for n in range(1_200):
        found = joins.arrive("join#delays#months#1@5", n, 1_200, f"s3://b/{'x' * 900}/{n}/", NOW)
    assert found is not None
    assert (len(found), found[1_199][-6:]) == (1_200, "/1199/")
