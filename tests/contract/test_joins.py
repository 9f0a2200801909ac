"""`follow_ons.Joins` on DynamoDB: what descends from a job is counted."""

import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.core.descent import Lineage
from longhaul.core.store.records import Records
from longhaul.pipelines.follow_ons import Join, JoinStanding, Replaced
from longhaul.pipelines.joins import DynamoJoins
from simulation.aws.clock import VirtualClock
from simulation.aws.cloud import FakeAws
from simulation.aws.service import Answer, Call, Proceed, unavailable
from tests.builders import NOW
from tests.contract.conftest import Aws, create_leases_table


@pytest.fixture
def joins(aws: Aws, table: str) -> DynamoJoins:
    return of(aws.client("dynamodb"), table)


def of(client: Any, table: str) -> DynamoJoins:
    return DynamoJoins(Records(client, table, VirtualClock(NOW), random.Random(0)))


JOIN = Join("delays", "months#1", Lineage(root="months#1", parent="months#1"), "clean")


def success(
    *path: tuple[str, int],
    output: str | None = None,
    join: Join = JOIN,
    run: int = 7,
    of: int | None = None,
    **by: int,
) -> Replaced:
    """The success of a job in its run, which follows from that one `of` the job before."""
    return Replaced(join, path, by, output, run, (7 if of is None else of) if path else 0)


def noted(joins: DynamoJoins, replaced: Replaced) -> Sequence[str] | None:
    """All outputs, once the join is complete."""
    complete = joins.note_success(replaced, NOW)
    return None if complete is None else complete.outputs


def test_join_is_complete_when_each_job_that_took_the_place_of_another_has_arrived(
    joins: DynamoJoins,
) -> None:
    assert noted(joins, success(clean=1, split=2)) is None
    assert noted(joins, success(("split", 1), clean=2)) is None
    assert noted(joins, success(("split", 1), ("clean", 1), output="s3://b/11/")) is None
    assert noted(joins, success(("split", 0))) is None  # it led to none
    assert noted(joins, success(("clean", 0), output="s3://b/0/")) is None

    found = noted(joins, success(("split", 1), ("clean", 0), output="s3://b/10/"))

    assert found == ["s3://b/0/", "s3://b/10/", "s3://b/11/"]


def test_repeated_success_changes_nothing_and_the_last_returns_the_outputs_again(
    joins: DynamoJoins,
) -> None:
    for _ in range(3):
        assert noted(joins, success(clean=2)) is None
    for _ in range(3):
        assert noted(joins, success(("clean", 1), output="s3://b/1/")) is None
    for _ in range(2):
        found = noted(joins, success(("clean", 0), output="s3://b/0/"))
        assert found == ["s3://b/0/", "s3://b/1/"]


def test_job_that_nothing_counted_led_to_changes_nothing(joins: DynamoJoins) -> None:
    assert noted(joins, success(("clean", 0), output="s3://b/0/")) is None
    noted(joins, success(clean=1))
    # Of a later run of the opener, which led to more.
    assert noted(joins, success(("clean", 1), output="s3://b/1/")) is None
    assert noted(joins, success(("other", 0), output="s3://b/x/")) is None

    assert noted(joins, success(("clean", 0), output="s3://b/0/")) == ["s3://b/0/"]


def test_what_a_join_waits_for_outlives_the_rows_by_years(fake: FakeAws) -> None:
    table = create_leases_table(fake.dynamodb)
    of(fake.dynamodb, table).note_success(success(clean=1), NOW)

    lives = [
        int(row.item["ttl"]["N"]) for row in fake.dynamodb.tables[table].rows.values() if row.item
    ]

    assert len(lives) == 2
    assert min(lives) > NOW.timestamp() + 5 * 365 * 86_400


def test_later_run_replaces_what_the_earlier_one_led_to(joins: DynamoJoins) -> None:
    noted(joins, success(clean=2))
    noted(joins, success(("clean", 0), output="s3://b/0/"))
    noted(joins, success(("clean", 1), days=3))
    noted(joins, success(("clean", 1), ("days", 2), output="s3://b/12/"))

    for _ in range(2):
        assert noted(joins, success(("clean", 1), days=2, run=8)) is None
    # What descends from the earlier run does not count any more, repeated or new.
    assert noted(joins, success(("clean", 1), ("days", 2), output="s3://b/12/")) is None
    assert noted(joins, success(("clean", 1), ("days", 0), output="s3://b/10/")) is None
    later: dict[str, Any] = {"of": 8, "run": 9}
    assert noted(joins, success(("clean", 1), ("days", 1), output="s3://b/11/", **later)) is None

    found = noted(joins, success(("clean", 1), ("days", 0), output="s3://b/10/", **later))

    assert found == ["s3://b/0/", "s3://b/10/", "s3://b/11/"]


def test_join_that_has_started_starts_again_with_all_outputs_when_a_job_runs_again(
    joins: DynamoJoins,
) -> None:
    noted(joins, success(clean=2))
    noted(joins, success(("clean", 0), output="s3://b/0/"))
    first = joins.note_success(success(("clean", 1), output="s3://b/1/"), NOW)

    second = joins.note_success(success(("clean", 0), output="s3://b/new/", run=8), NOW)
    late = joins.note_success(success(("clean", 0), output="s3://b/0/"), NOW)

    assert first is not None
    assert second is not None
    assert late is None
    assert (first.outputs, first.lineage.run) == (["s3://b/0/", "s3://b/1/"], 0)
    assert (second.outputs, second.lineage.run) == (["s3://b/new/", "s3://b/1/"], 1)
    assert joins.standings([JOIN.key, "join#other#months#1"]) == {JOIN.key: JoinStanding(0, 1)}


@pytest.mark.parametrize("at", range(12))
def test_replacement_that_dies_at_any_call_is_finished_by_its_repeat(
    fake: FakeAws, at: int
) -> None:
    joins = of(fake.dynamodb, create_leases_table(fake.dynamodb))
    noted(joins, success(clean=2))
    noted(joins, success(("clean", 0), output="s3://b/0/"))
    noted(joins, success(("clean", 1), days=4))
    for n in range(2):
        noted(joins, success(("clean", 1), ("days", n), output=f"s3://b/1{n}/"))
    calls = iter(range(10_000))

    def around(call: Call, proceed: Proceed) -> Answer:
        if (n := next(calls)) > at:
            raise unavailable(call)
        answer = proceed()
        if n == at:
            raise unavailable(call)
        return answer

    fake.gate.around = around
    with suppress(ClientError):
        noted(joins, success(("clean", 1), days=1, run=8))
    fake.gate.around = None
    noted(joins, success(("clean", 1), ("days", 2), output="s3://b/12/"))  # of the earlier run

    assert noted(joins, success(("clean", 1), days=1, run=8)) is None
    later = success(("clean", 1), ("days", 0), output="s3://b/new/", of=8, run=9)
    assert noted(joins, later) == ["s3://b/0/", "s3://b/new/"]


def test_nothing_is_counted_below_a_place_while_another_run_replaces_it(fake: FakeAws) -> None:
    joins = of(fake.dynamodb, create_leases_table(fake.dynamodb))
    noted(joins, success(clean=1))
    noted(joins, success(("clean", 0), days=2))
    late: list[Sequence[str] | None] = []

    def around(call: Call, proceed: Proceed) -> Answer:
        is_last = "closed" in str(call.arguments.get("TransactItems", [{}])[0].get("Put"))
        if is_last and not late:
            late.append(None)
            noted(joins, success(("clean", 0), ("days", 0), output="s3://b/late/"))
        return proceed()

    fake.gate.around = around
    assert noted(joins, success(("clean", 0), days=2, run=8)) is None
    fake.gate.around = None

    assert late
    later = [success(("clean", 0), ("days", n), output=f"s3://b/{n}/", of=8) for n in range(2)]
    assert [noted(joins, each) for each in later] == [None, ["s3://b/0/", "s3://b/1/"]]


@pytest.mark.parametrize("seed", range(20))
def test_drawn_runs_complete_a_join_once_all_of_the_latest_has_arrived(
    fake: FakeAws, seed: int
) -> None:
    """Jobs of `a` run again in any order, with what the earlier runs led to arriving late."""
    joins, rng = of(fake.dynamodb, create_leases_table(fake.dynamodb)), random.Random(seed)
    width = rng.randint(1, 3)
    led_to: dict[int, tuple[int, int]] = {}  # by place: the run that was counted, and its number
    arrived: set[tuple[int, int, int]] = set()  # place, run, number
    sent: list[tuple[int, int, int]] = []
    noted(joins, success(a=width))
    for _ in range(60):
        place = rng.randrange(width)
        if sent and rng.random() < 0.7:
            place, run, n = rng.choice(sent)
            output = f"s3://b/{place}-{run}-{n}/"
            found = noted(joins, success(("a", place), ("clean", n), output=output, of=run, run=1))
            if led_to[place][0] == run:
                arrived.add((place, run, n))
        else:
            run = led_to.get(place, (7, 0))[0] + (rng.random() < 0.3)
            count = led_to[place][1] if place in led_to and run == led_to[place][0] else None
            count = rng.randint(0, 3) if count is None else count
            found = noted(joins, success(("a", place), run=run, clean=count))
            led_to[place] = run, count
            sent += [(place, run, n) for n in range(count)]
        wanted = [(each, *led_to.get(each, (0, 0))) for each in range(width)]
        all_of = [(each, run, n) for each, run, count in wanted for n in range(count)]
        is_complete = len(led_to) == width and arrived.issuperset(all_of)
        outputs = [f"s3://b/{each}-{run}-{n}/" for each, run, n in all_of]
        assert found in ((outputs,) if is_complete and found is not None else (None,))
        is_latest = led_to.get(place, (0, 0))[0] == run
        assert not (is_complete and is_latest) or found == outputs
