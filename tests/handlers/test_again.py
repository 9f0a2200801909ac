"""Jobs that run again in their place: what they led to, and the joins behind them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.core.lease import Lease, State
from longhaul.core.message import Message
from longhaul.operations.errors import NotRetriableError
from tests.builders import body
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_joins import BY_DATE, requests, run_all
from tests.handlers.test_stages import (
    STAGES,
    begun,
    dispatched,
    emitting,
    end_well,
    jobs_in,
    receive,
)
from tests.handlers.test_trees import rerunner, trees_of

CLEAN, DELAYS = STAGES[1:]


def again(stack: Stack, key: str, *, only: bool = False, **params: Any) -> None:
    """Send an ended job again, as `longhaul rerun` does."""
    stack.aws.clock.advance(600)
    row = with_request(stack, key)
    rerunner(stack).send(rerunner(stack).plan(row, params=params, only=only))


def with_request(stack: Stack, key: str) -> Lease:
    """The row of a job, whose request is kept."""
    row = stack.load(key)
    if row.lineage is None:
        stack.parts.requests.put(row.request_ref, Message(body(job_id=row.job_id), {}))
    return row


def run_one(stack: Stack, name: str, context: Context, emits: Any = None) -> Lease:
    (row,) = run_all(stack, name, context, lambda _: emits)
    return row


def inputs_of(stack: Stack, row: Lease) -> Sequence[str]:
    assert row.lineage is not None
    found = stack.parts.requests.get_inputs(str(row.lineage.inputs_ref))
    return list((found or {}).values())


def test_join_runs_again_with_the_outputs_of_all_members_when_one_of_them_does(
    pipeline: Stack, context: Context
) -> None:
    begun(pipeline, context, emitting(12))
    members = run_all(pipeline, "clean", context)
    first = run_one(pipeline, "delays", context)

    again(pipeline, members[3].key)
    member = run_one(pipeline, "clean", context)
    join = run_one(pipeline, "delays", context)

    assert (member.key, join.key) == (members[3].key, first.key)
    assert (member.run > members[3].run, join.run > first.run) == (True, True)
    assert inputs_of(pipeline, join) == inputs_of(pipeline, first)
    assert len(inputs_of(pipeline, join)) == 12


@pytest.mark.parametrize(("before", "after"), [(3, 3), (3, 1), (1, 3), (2, 0)])
def test_join_waits_for_what_a_member_leads_to_when_it_runs_again(
    context: Context, before: int, after: int
) -> None:
    with deployed(check=True, stages=BY_DATE) as stack:
        begun(stack, context, {"fetch": requests(2)})
        one, other = dispatched(stack, stack.settings.stage("fetch"), context)
        for row, count in ((one, before), (other, 1)):
            end_well(stack, row, context, {"clean": requests(count)})
        first_cleans = run_all(stack, "clean", context)
        first = run_one(stack, "delays", context)

        again(stack, one.key)
        run_one(stack, "fetch", context, {"clean": requests(after)})
        assert after == 0 or jobs_in(stack, stack.settings.stage("delays")) == []
        cleans = run_all(stack, "clean", context)
        join = run_one(stack, "delays", context)

        assert len(cleans) == after
        known = {row.key for row in first_cleans}
        assert len(known & {row.key for row in cleans}) == min(before, after)
        assert join.key == first.key
        assert len(inputs_of(stack, join)) == after + 1


@pytest.mark.parametrize("members", [4, 2, 1, 0])
def test_whole_tree_runs_again_in_its_place(
    pipeline: Stack, context: Context, members: int
) -> None:
    root = begun(pipeline, context, emitting(2))
    before = run_all(pipeline, "clean", context)
    first = run_one(pipeline, "delays", context)

    again(pipeline, root.key)
    (root_again,) = dispatched(pipeline, STAGES[0], context)
    end_well(pipeline, root_again, context, {"clean": requests(members)})
    assert members == 0 or trees_of(pipeline).walk(pipeline.row()).has_ended is False
    after = run_all(pipeline, "clean", context)
    join = run_one(pipeline, "delays", context)

    assert len(after) == members
    assert len({row.key for row in before} & {row.key for row in after}) == min(2, members)
    assert join.key == first.key
    assert inputs_of(pipeline, join) == [row.places[""] for row in _in_order(after)]
    tree = trees_of(pipeline).walk(pipeline.row())
    assert sum(states.total() for states in tree.counts().values()) == members + 2
    assert tree.has_succeeded


def _in_order(rows: Sequence[Lease]) -> Sequence[Lease]:
    return sorted(rows, key=lambda row: row.lineage.groups[-1].n if row.lineage else 0)


def test_nothing_follows_again_from_a_job_that_runs_again_alone(
    pipeline: Stack, context: Context
) -> None:
    root = begun(pipeline, context, emitting(2))
    run_all(pipeline, "clean", context)
    run_one(pipeline, "delays", context)

    again(pipeline, root.key, only=True)
    (alone,) = dispatched(pipeline, STAGES[0], context)
    end_well(pipeline, alone, context, emitting(3))

    assert jobs_in(pipeline, CLEAN) == jobs_in(pipeline, DELAYS) == []
    tree = trees_of(pipeline).walk(pipeline.row())
    assert tree.has_succeeded
    assert tree.counts()["clean"] == {"SUCCEEDED": 2}


def nothing_open(_: Lease) -> Any:
    return SimpleNamespace(open=None)


def test_what_an_earlier_run_sent_waits_for_nothing_and_never_starts(
    pipeline: Stack, context: Context
) -> None:
    root = begun(pipeline, context, emitting(2))
    with pytest.raises(NotRetriableError, match="has not ended"):
        again(pipeline, root.key)
    (queued, _) = receive(pipeline, CLEAN)
    row = with_request(pipeline, root.key)
    pipeline.sqs.purge_queue(QueueUrl=CLEAN.queue_url)
    send_again = rerunner(pipeline)
    blind = SimpleNamespace(settings=send_again.trees.settings, look_through=nothing_open)
    object.__setattr__(send_again, "trees", blind)
    send_again.send(send_again.plan(row, params={}))
    (later,) = dispatched(pipeline, STAGES[0], context)
    pipeline.sqs.send_message(QueueUrl=CLEAN.queue_url, MessageBody=queued["Body"])

    assert dispatched(pipeline, CLEAN, context) == []
    assert jobs_in(pipeline, CLEAN) == []
    assert "Messages" not in pipeline.sqs.receive_message(QueueUrl=CLEAN.dead_letter_queue_url)
    end_well(pipeline, later, context, emitting(1))
    assert run_one(pipeline, "clean", context).state is State.RUNNING
