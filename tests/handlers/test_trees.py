"""Trees as they grow, with the real handlers."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.core.lease import Lease, State
from longhaul.core.message import Message
from longhaul.core.request import read_request
from longhaul.core.settings import runtime_settings
from longhaul.operations.cancel import Canceller
from longhaul.operations.errors import NotRetriableError
from longhaul.operations.rerun import Rerunner, why_not
from longhaul.operations.tree import TreeCanceller, progress, unwell
from longhaul.operations.view import cancelled_as, is_stopped
from longhaul.operations.wait import Awaited, conflicts
from longhaul.pipelines.trees import TreeJob, Trees
from tests.builders import body, there
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_joins import BY_DATE, in_order, inputs_of, requests, run_all
from tests.handlers.test_stages import (
    STAGES,
    begun,
    commit,
    dispatched,
    emitting,
    end_well,
    jobs_in,
    receive,
    settled,
)


@pytest.fixture
def stack() -> Iterator[Stack]:
    with deployed(check=True, stages=BY_DATE) as found:
        yield found


def walked(stack: Stack, root: Lease) -> TreeJob:
    return trees_of(stack).walk(stack.load(root.key))


def trees_of(stack: Stack) -> Trees:
    parts = stack.parts
    return Trees(runtime_settings(), parts.leases, parts.joins)


def canceller(stack: Stack) -> TreeCanceller:
    parts = stack.parts
    return TreeCanceller(trees_of(stack), Canceller(parts.leases, parts.finisher), parts.backfills)


def cancelled(stack: Stack, root: Lease) -> list[Lease]:
    """What a cancel of the tree returns."""
    return canceller(stack).cancel(stack.load(root.key))


def rerunner(stack: Stack) -> Rerunner:
    return Rerunner(stack.parts, trees_of(stack))


def rerun(stack: Stack, row: Lease) -> None:
    again = rerunner(stack)
    again.send(again.plan(row))


def test_a_tree_knows_its_queued_jobs_and_for_how_many_its_join_waits(
    stack: Stack, context: Context
) -> None:
    root = begun(stack, context, {"fetch": requests(3)})
    tree = walked(stack, root)
    assert progress(tree) == "main 1 of 1, fetch 0 of 3, delays waits for 3"
    assert [job.state for job in tree.children] == ["QUEUED"] * 3 + ["WAITS"]

    rows = dispatched(stack, stack.settings.stage("fetch"), context)
    for row in rows[:2]:
        end_well(stack, row, context)
    assert progress(walked(stack, root)) == (
        "main 1 of 1, fetch 2 of 3, clean 0 of 2, delays waits for 3"
    )
    run_all(stack, "clean", context)
    join = walked(stack, root).children[-1]
    assert (join.waits_for, join.collects) == (1, 3)
    commit(stack, rows[2], {"clean": requests(0)}, seal="5ea1")
    settled(rows[2], context)
    run_all(stack, "clean", context)
    tree = walked(stack, root)
    assert (tree.children[-1].state, tree.has_ended) == ("QUEUED", False)

    run_all(stack, "delays", context)
    tree = walked(stack, root)
    assert (tree.has_ended, tree.has_succeeded) == (True, True)
    assert progress(tree) == "main 1 of 1, fetch 3 of 3, clean 2 of 2, delays 1 of 1"


def test_a_cancelled_tree_ends_when_its_messages_have_come(stack: Stack, context: Context) -> None:
    root = begun(stack, context, {"fetch": requests(3)})
    stack.aws.clock.advance(1)
    assert [each.is_mark for each in cancelled(stack, root)] == [True] * 3
    assert [each.state for each in dispatched(stack, stack.settings.stage("fetch"), context)].count(
        State.RUNNING
    ) == 0
    tree = walked(stack, root)
    assert (tree.has_ended, tree.has_succeeded) == (True, False)
    assert progress(tree) == "main 1 of 1, fetch 0 of 3 (3 CANCELLED), delays waits for 3"

    stack.aws.clock.advance(1)
    for each in unwell(tree):
        assert why_not(each) is None
        rerun(stack, each)
    for name in ("fetch", "clean", "delays"):
        run_all(stack, name, context)
    assert walked(stack, root).has_succeeded


def test_nothing_follows_what_had_committed_when_its_tree_was_cancelled(
    stack: Stack, context: Context
) -> None:
    """It was published by then, and led on: to jobs, and as the last member to the join."""
    root = begun(stack, context, {"fetch": requests(2)})
    first, second = dispatched(stack, stack.settings.stage("fetch"), context)
    commit(stack, first, seal="s" * 32)
    stack.aws.clock.advance(5)
    rows = cancelled(stack, root)
    assert [cancelled_as(row) for row in sorted(rows, key=lambda row: row.id != first.id)] == [
        "its output is committed: it ends, and nothing follows it",
        "running: it is being stopped",
    ]
    assert settled(first, context) == "SUCCEEDED"
    assert settled(second, context, {"Error": "JobCancelled", "Cause": "x"}) == "CANCELLED"
    for name in ("clean", "delays"):
        assert run_all(stack, name, context) == []
    tree = walked(stack, root)
    assert tree.has_ended
    assert progress(tree) == "main 1 of 1, fetch 1 of 2 (1 CANCELLED), delays waits for 2"


def test_what_came_later_of_a_cancelled_tree_ends_without_a_mark_of_its_own(
    stack: Stack,
    context: Context,
) -> None:
    """The command that cancels died behind its first write."""
    root = begun(stack, context, {"fetch": requests(3)})
    stack.aws.clock.advance(1)
    stack.parts.leases.cancel_tree(root.key)
    fetch = stack.settings.stage("fetch")
    rows = dispatched(stack, fetch, context)
    assert [row.state for row in rows].count(State.RUNNING) == 0
    assert walked(stack, root).has_ended


def test_a_job_that_has_committed_is_not_stopped_and_nothing_follows_it(
    stack: Stack, context: Context
) -> None:
    root = stack.claim()
    commit(stack, root, {"fetch": requests(2)}, seal="s" * 32)
    stack.aws.clock.advance(5)
    row = Canceller(stack.parts.leases, stack.parts.finisher).cancel("main", root.job_id)
    assert (row.shown_state, is_stopped(row)) == ("RUNNING", False)
    fixed = read_request(body(job_id=root.job_id, params={"round": True}))
    assert conflicts(Awaited(root.key, fixed.fingerprint(), row))
    assert settled(root, context) == "SUCCEEDED"
    fetch = stack.settings.stage("fetch")
    assert dispatched(stack, fetch, context) == []
    assert walked(stack, root).has_ended

    # What a settle that had begun before the cancel, and hung, sends now never starts.
    before_the_cancel = replace(stack.load(root.key), cut_off=False)
    assert not list(stack.parts.finisher.follow_ons.send(before_the_cancel))
    assert dispatched(stack, fetch, context) == []
    assert jobs_in(stack, fetch) == stack.dead_letters(fetch) == []


@pytest.mark.parametrize("has_lineage", [False, True])
def test_a_forged_request_says_nothing_of_the_job_whose_id_it_has(
    stack: Stack, context: Context, *, has_lineage: bool
) -> None:
    """The job looked dead although its message waits, and its tree seemed to have ended."""
    root = begun(stack, context, {"fetch": requests(1)})
    fetch, (member,) = stack.settings.stage("fetch"), walked(stack, root).children[:1]
    (held,) = stack.sqs.receive_message(QueueUrl=fetch.queue_url)["Messages"]
    forged = {"root": root.key, "parent": root.key, "groups": []} if has_lineage else None
    fields = {"job_id": member.job_id} | ({"lineage": forged} if forged else {})
    stack.sqs.send_message(QueueUrl=fetch.queue_url, MessageBody=body(**fields))
    assert dispatched(stack, fetch, context) == []
    assert walked(stack, root).children[0].state == "QUEUED"
    stack.sqs.change_message_visibility(
        QueueUrl=fetch.queue_url, ReceiptHandle=held["ReceiptHandle"], VisibilityTimeout=0
    )
    assert [row.key for row in dispatched(stack, fetch, context)] == [member.key]


def test_a_follow_on_that_is_refused_is_dead_at_its_place(
    stack: Stack,
    context: Context,
) -> None:
    """Without a row it looked queued, and who waited for the tree waited for ever."""
    too_long = {"timeout": "14d", "params": {"query": "SELECT 1"}}
    root = begun(stack, context, {"fetch": [*requests(1), too_long]})
    (row,) = dispatched(stack, stack.settings.stage("fetch"), context)
    end_well(stack, row, context, {"clean": requests(0)})

    tree = walked(stack, root)
    assert tree.has_ended
    assert progress(tree) == "main 1 of 1, fetch 1 of 2 (1 DEAD), delays waits for 1"
    refused = there(tree.children[1].lease)
    assert refused.last_class == "invalid_request"


# Jobs that run again in their place: what they led to, and the joins behind them.


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


@pytest.mark.parametrize(("before", "after"), [(3, 3), (3, 1), (1, 3), (2, 0)])
def test_join_waits_for_what_a_member_leads_to_when_it_runs_again(
    stack: Stack, context: Context, before: int, after: int
) -> None:
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
    assert list(inputs_of(pipeline, join).values()) == [row.places[""] for row in in_order(after)]
    tree = trees_of(pipeline).walk(pipeline.row())
    assert sum(states.total() for states in tree.counts().values()) == members + 2
    assert tree.has_succeeded


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
