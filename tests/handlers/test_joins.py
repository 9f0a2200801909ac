"""Joins that wait for all that descends from one job, with the real handlers."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from functions import sweeper
from longhaul.core.lease import Lease, State
from longhaul.core.settings import Stage
from longhaul.operations.cancel import Canceller
from tests.builders import body, stage, there
from tests.events import event
from tests.handlers.life import Kill
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_stages import (
    STAGES,
    begun,
    commit,
    dispatched,
    emitting,
    end_well,
    jobs_in,
    queued,
    receive,
    settled,
)

CLEAN, DELAYS = STAGES[1:]
Emits = Callable[[tuple[int, ...]], Any]


def none(_: tuple[int, ...]) -> None:
    return None


def requests(count: int) -> list[dict[str, Any]]:
    return [{"params": {"n": n}} for n in range(count)]


def run_all(stack: Stack, name: str, context: Context, emits: Emits = none) -> list[Lease]:
    """Run each job that waits in a stage; what it emits depends on its places."""
    rows = dispatched(stack, stack.settings.stage(name), context)
    for row in rows:
        assert row.lineage is not None
        commit(stack, row, emits(tuple(group.n for group in row.lineage.groups)), seal="5ea1")
        assert settled(row, context) == "SUCCEEDED"
    return rows


def inputs_of(stack: Stack, row: Lease) -> Mapping[str, str]:
    """The inputs of a join, by their names."""
    assert row.lineage is not None
    return there(stack.parts.requests.get_inputs(str(row.lineage.inputs_ref)))


def in_order(rows: Sequence[Lease]) -> Sequence[Lease]:
    """Rows of one group by their place in it."""
    return sorted(rows, key=lambda row: there(row.lineage).groups[-1].n)


def of(*stages: Stage) -> tuple[Stage, ...]:
    return (stages[0], *(queued(**each.model_dump(exclude=_QUEUES)) for each in stages[1:]))


_QUEUES = {"queue_url", "dead_letter_queue_url"}

BY_DATE = of(
    stage(next=("fetch",)),
    stage(name="fetch", job="sql", next=("clean",)),
    stage(name="clean", job="sql", next=("delays",)),
    stage(name="delays", job="sql", join=True, opener="main"),
)
NESTED = of(
    stage(next=("years",)),
    stage(name="years", job="sql", next=("months",)),
    stage(name="months", job="sql", next=("days",)),
    stage(name="days", job="sql", next=("month",)),
    stage(name="month", job="sql", join=True, opener="months", next=("year",)),
    stage(name="year", job="sql", join=True, opener="years", next=("all",)),
    stage(name="all", job="sql", join=True, opener="main"),
)


@pytest.mark.parametrize("named", [True, False], ids=["named", "nearest"])
@pytest.mark.parametrize("of_second", [2, 1, 0])
def test_each_join_of_nested_fan_outs_starts_once_for_each_job_of_its_opener(
    context: Context, of_second: int, *, named: bool
) -> None:
    stages = NESTED if named else tuple(each.model_copy(update={"opener": None}) for each in NESTED)
    with deployed(check=True, stages=stages) as stack:
        begun(stack, context, {"years": requests(2)})
        ran = {
            "years": run_all(
                stack, "years", context, lambda n: {"months": requests((2, of_second)[n[0]])}
            ),
            "months": run_all(stack, "months", context, lambda _: {"days": requests(2)}),
        }
        ran |= {name: run_all(stack, name, context) for name in ("days", "month", "year", "all")}

        months = 2 + of_second
        assert {name: len(rows) for name, rows in ran.items()} == {
            "years": 2,
            "months": months,
            "days": 2 * months,
            "month": months,
            "year": 2,
            "all": 1,
        }
        assert sorted(len(inputs_of(stack, each)) for each in ran["year"]) == sorted((2, of_second))
        assert list(inputs_of(stack, ran["all"][0])) == ["year_00000", "year_00001"]
        assert stack.dead_letters() == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(14))
def test_join_starts_once_wherever_the_settle_of_its_last_member_dies(
    pipeline: Stack, context: Context, at: int, *, after: bool
) -> None:
    begun(pipeline, context, emitting(2))
    for member in dispatched(pipeline, CLEAN, context):
        commit(pipeline, member, seal="5ea1")
        with Kill(pipeline.aws.gate, at + 1, after=after):
            settled(member, context)
        settled(member, context)
        sweeper.lambda_handler(event("sweeper", "schedule"), context)
        assert pipeline.load(member.key).is_finished

    (join,) = dispatched(pipeline, DELAYS, context)
    assert list(inputs_of(pipeline, join)) == ["clean_00000", "clean_00001"]


@pytest.mark.parametrize("at", range(16))
def test_join_starts_once_though_members_end_before_their_emitter_is_settled_again(
    pipeline: Stack, context: Context, at: int
) -> None:
    row = pipeline.claim()
    commit(pipeline, row, emitting(12), seal="5ea1")  # more than one batch
    with Kill(pipeline.aws.gate, at + 1, after=True):
        settled(row, context)
    ended = run_all(pipeline, "clean", context)

    settled(row, context)
    sweeper.lambda_handler(event("sweeper", "schedule"), context)

    assert len(ended) + len(run_all(pipeline, "clean", context)) == 12
    (join,) = dispatched(pipeline, DELAYS, context)
    assert list(inputs_of(pipeline, join)) == [f"clean_{n:05}" for n in range(12)]


def test_correction_of_a_cancelled_member_waits_for_the_member_and_takes_its_place(
    pipeline: Stack, context: Context
) -> None:
    row = begun(pipeline, context, emitting(1))
    (waiting,) = receive(pipeline, CLEAN)  # as in a full stage: hidden for a while
    unwanted = json.loads(waiting["Body"])["job_id"]
    parts = pipeline.parts
    pipeline.aws.clock.advance(1)
    Canceller(parts.leases, parts.finisher).cancel("clean", unwanted)
    pipeline.aws.clock.advance(1)
    fixed = body(job_id=unwanted, params={"fixed": True})
    pipeline.sqs.send_message(QueueUrl=CLEAN.queue_url, MessageBody=fixed)

    assert dispatched(pipeline, CLEAN, context) == []

    pipeline.aws.clock.advance(130)  # the member's own message is visible again
    found = dispatched(pipeline, CLEAN, context)
    pipeline.aws.clock.advance(130)
    (again,) = found or dispatched(pipeline, CLEAN, context)
    assert again.lineage is not None
    end_well(pipeline, again, context)
    (join,) = dispatched(pipeline, DELAYS, context)
    assert join.root == row.key


def test_correction_of_a_cancelled_member_that_never_comes_is_refused(
    pipeline: Stack, context: Context
) -> None:
    begun(pipeline, context, emitting(1))
    (waiting,) = receive(pipeline, CLEAN)
    unwanted = json.loads(waiting["Body"])["job_id"]
    pipeline.sqs.purge_queue(QueueUrl=CLEAN.queue_url)
    parts = pipeline.parts
    pipeline.aws.clock.advance(1)
    Canceller(parts.leases, parts.finisher).cancel("clean", unwanted)
    pipeline.aws.clock.advance(1)
    fixed = body(job_id=unwanted, params={"fixed": True})
    pipeline.sqs.send_message(QueueUrl=CLEAN.queue_url, MessageBody=fixed)
    assert dispatched(pipeline, CLEAN, context) == []
    assert pipeline.load(f"clean#{unwanted}").is_mark

    pipeline.aws.clock.advance(6 * 3_600)

    assert dispatched(pipeline, CLEAN, context) == []
    ((_, why),) = pipeline.dead_letters(CLEAN)
    assert why["class"] == "invalid_request"
    assert "no such job has come yet" in why["reason"]


def test_join_with_too_many_inputs_is_dead_lettered_and_never_starts(
    pipeline: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.pipelines.follow_ons.MAX_GROUP", 1)
    begun(pipeline, context, emitting(2))

    run_all(pipeline, "clean", context)

    assert jobs_in(pipeline, DELAYS) == []
    ((sent, why),) = pipeline.dead_letters(DELAYS)
    assert "2 inputs of a join; at most 1" in why["reason"]
    # Sent again as it is, it is refused again.
    pipeline.sqs.send_message(QueueUrl=DELAYS.queue_url, MessageBody=sent)
    assert dispatched(pipeline, DELAYS, context) == []


@pytest.mark.parametrize("at", range(6))
def test_what_was_counted_is_sent_though_a_deploy_leads_elsewhere_in_between(
    context: Context, at: int
) -> None:
    stages = (*BY_DATE, *of(stage(), stage(name="b", job="sql"))[1:])
    with deployed(check=True, stages=stages) as stack:
        begun(stack, context, {"fetch": requests(1)})
        (row,) = dispatched(stack, stages[1], context)
        commit(stack, row, seal="5ea1")
        with Kill(stack.aws.gate, at + 1, after=True):
            settled(row, context)
        was_settled = stack.load(row.key).state is State.SUCCEEDED
        elsewhere = stages[1].model_copy(update={"next": ("b",)})
        first = stages[0].model_copy(update={"next": ("fetch", "clean")})
        stack.deploy(stages=(first, elsewhere, *stages[2:]))
        settled(row, context)
        sweeper.lambda_handler(event("sweeper", "schedule"), context)

        members = run_all(stack, "clean", context)

        assert (len(members), len(jobs_in(stack, stages[4]))) == ((1, 0) if was_settled else (0, 1))
        assert len(run_all(stack, "delays", context)) == 1


RENAMED = (
    *BY_DATE[:2],
    BY_DATE[2].model_copy(update={"next": ("report",)}),
    *of(stage(), stage(name="report", job="sql", join=True, opener="main"))[1:],
)


@pytest.mark.parametrize(
    "after", [(*BY_DATE[:2], BY_DATE[2].model_copy(update={"next": ()})), RENAMED]
)
@pytest.mark.parametrize("counted", [0, 1])
def test_join_that_was_taken_out_or_renamed_is_a_dead_letter_when_all_has_arrived(
    context: Context, after: tuple[Stage, ...], counted: int
) -> None:
    with deployed(check=True, stages=(*BY_DATE, *RENAMED[3:])) as stack:
        stack.deploy(stages=BY_DATE)
        row = begun(stack, context, {"fetch": requests(2)})
        run_all(stack, "fetch", context)
        members = dispatched(stack, BY_DATE[2], context)
        for each in members[:counted]:
            end_well(stack, each, context)
        stack.deploy(stages=after)
        for each in members[counted:]:
            assert stack.dead_letters(BY_DATE[2]) == []
            end_well(stack, each, context)

        ((_, why),) = stack.dead_letters(BY_DATE[2])

        assert why["class"] == "unsendable"
        assert "stage delays was taken out" in why["reason"]
        assert row.job_id in why["key"]
        assert jobs_in(stack, RENAMED[3]) == []
