"""Trees as they grow, with the real handlers."""

import json

import pytest

from functions import settle
from longhaul.core.lease import Lease, State, shown_state
from longhaul.core.request import read_request
from longhaul.core.settings import runtime_settings
from longhaul.operations.cancel import Canceller
from longhaul.operations.rerun import Rerunner, why_not
from longhaul.operations.tree import TreeCanceller, progress, unwell
from longhaul.operations.view import cancelled_as, is_stopped
from longhaul.operations.wait import Awaited, conflicts
from longhaul.pipelines.trees import TreeJob, Trees
from tests.builders import body, there
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_joins import BY_DATE, requests, run_all
from tests.handlers.test_stages import begun, commit, dispatched, end_well, settled


def walked(stack: Stack, root: Lease) -> TreeJob:
    row = stack.load(root.key)
    return trees_of(stack).walk(row)


def trees_of(stack: Stack) -> Trees:
    parts = stack.parts
    return Trees(runtime_settings(), parts.leases, parts.joins)


def cancelled(stack: Stack, root: Lease) -> list[Lease]:
    """What a cancel of the tree returns."""
    row, parts = stack.parts.leases.load(root.key), stack.parts
    assert row is not None
    canceller = Canceller(parts.leases, parts.finisher)
    return TreeCanceller(trees_of(stack), canceller, parts.backfills).cancel(row)


def killed(lease: Lease, context: Context) -> str:
    """Settle an attempt that saw its cancel mark."""
    end = {**json.loads(lease.execution_input), "error": {"Error": "JobCancelled", "Cause": "x"}}
    return str(settle.lambda_handler(end, context)["outcome"])


def rerunner(stack: Stack) -> Rerunner:
    return Rerunner(stack.parts, trees_of(stack))


def rerun(stack: Stack, row: Lease) -> None:
    again = rerunner(stack)
    again.send(again.plan(row))


def test_a_tree_knows_its_queued_jobs_and_for_how_many_its_join_waits(context: Context) -> None:
    with deployed(check=True, stages=BY_DATE) as stack:
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


def test_a_cancelled_tree_ends_when_its_messages_have_come(context: Context) -> None:
    with deployed(check=True, stages=BY_DATE) as stack:
        root = begun(stack, context, {"fetch": requests(3)})
        stack.aws.clock.advance(1)
        assert [each.is_mark for each in cancelled(stack, root)] == [True] * 3
        assert [
            each.state for each in dispatched(stack, stack.settings.stage("fetch"), context)
        ].count(State.RUNNING) == 0
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


def test_nothing_follows_what_had_committed_when_its_tree_was_cancelled(context: Context) -> None:
    """It was published by then, and led on: to jobs, and as the last member to the join."""
    with deployed(check=True, stages=BY_DATE) as stack:
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
        assert killed(second, context) == "CANCELLED"
        for name in ("clean", "delays"):
            assert run_all(stack, name, context) == []
        tree = walked(stack, root)
        assert tree.has_ended
        assert progress(tree) == "main 1 of 1, fetch 1 of 2 (1 CANCELLED), delays waits for 2"


def test_what_came_later_of_a_cancelled_tree_ends_without_a_mark_of_its_own(
    context: Context,
) -> None:
    """The command that cancels died behind its first write."""
    with deployed(check=True, stages=BY_DATE) as stack:
        root = begun(stack, context, {"fetch": requests(3)})
        stack.aws.clock.advance(1)
        stack.parts.leases.cancel_tree(root.key)
        fetch = stack.settings.stage("fetch")
        rows = dispatched(stack, fetch, context)
        assert [row.state for row in rows].count(State.RUNNING) == 0
        assert walked(stack, root).has_ended

        stack.aws.clock.advance(1)
        for each in unwell(walked(stack, root)):
            rerun(stack, each)
        for name in ("fetch", "clean", "delays"):
            run_all(stack, name, context)
        assert walked(stack, root).has_succeeded


def test_a_job_that_has_committed_is_not_stopped_and_nothing_follows_it(context: Context) -> None:
    with deployed(check=True, stages=BY_DATE) as stack:
        root = stack.claim()
        commit(stack, root, {"fetch": requests(2)}, seal="s" * 32)
        stack.aws.clock.advance(5)
        row = Canceller(stack.parts.leases, stack.parts.finisher).cancel("main", root.job_id)
        assert (shown_state(row), is_stopped(row)) == ("RUNNING", False)
        fixed = read_request(body(job_id=root.job_id, params={"round": True}))
        assert conflicts(Awaited(root.key, fixed.fingerprint(), row))
        assert settled(root, context) == "SUCCEEDED"
        assert dispatched(stack, stack.settings.stage("fetch"), context) == []
        assert walked(stack, root).has_ended


@pytest.mark.parametrize("has_lineage", [False, True])
def test_a_forged_request_says_nothing_of_the_job_whose_id_it_has(
    context: Context, *, has_lineage: bool
) -> None:
    """The job looked dead although its message waits, and its tree seemed to have ended."""
    with deployed(check=True, stages=BY_DATE) as stack:
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
    context: Context,
) -> None:
    """Without a row it looked queued, and who waited for the tree waited for ever."""
    with deployed(check=True, stages=BY_DATE) as stack:
        too_long = {"timeout": "14d", "params": {"query": "SELECT 1"}}
        root = begun(stack, context, {"fetch": [*requests(1), too_long]})
        (row,) = dispatched(stack, stack.settings.stage("fetch"), context)
        end_well(stack, row, context, {"clean": requests(0)})

        tree = walked(stack, root)
        assert tree.has_ended
        assert progress(tree) == "main 1 of 1, fetch 1 of 2 (1 DEAD), delays waits for 1"
        refused = there(tree.children[1].lease)
        assert refused.last_class == "invalid_request"
