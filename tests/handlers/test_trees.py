"""Trees as they grow, with the real handlers."""

from longhaul.domain.lease import Lease, State
from longhaul.operations.cancel import Canceller
from longhaul.operations.tree import TreeJob, Trees, progress
from tests.handlers.conftest import Context, Stack, deployed
from tests.handlers.test_joins import BY_DATE, NESTED, requests, run_all
from tests.handlers.test_stages import begun, commit, dispatched, settled


def walked(stack: Stack, root: Lease) -> TreeJob:
    row = stack.parts.leases.load(root.key)
    assert row is not None
    return Trees(stack.settings, stack.parts.leases, stack.parts.requests).walk(row)


def test_a_tree_knows_its_queued_jobs_and_for_how_many_its_join_waits(context: Context) -> None:
    with deployed(check=True, stages=BY_DATE) as stack:
        root = begun(stack, context, {"fetch": requests(3)})
        tree = walked(stack, root)
        assert progress(tree) == "main 1 of 1, fetch 0 of 3, delays waits for 3"
        assert [job.state for job in tree.children] == ["QUEUED"] * 3 + ["WAITS"]

        rows = dispatched(stack, stack.settings.stage("fetch"), context)
        for row in rows[:2]:
            commit(stack, row, seal="5ea1")
            settled(row, context)
        assert progress(walked(stack, root)) == (
            "main 1 of 1, fetch 2 of 3, clean 0 of 2, delays waits for 3"
        )
        commit(stack, rows[2], {"clean": requests(0)}, seal="5ea1")
        settled(rows[2], context)
        run_all(stack, "clean", context)
        tree = walked(stack, root)
        assert (tree.children[-1].state, tree.has_ended) == ("QUEUED", False)

        run_all(stack, "delays", context)
        tree = walked(stack, root)
        assert (tree.has_ended, tree.has_succeeded) == (True, True)
        assert progress(tree) == "main 1 of 1, fetch 3 of 3, clean 2 of 2, delays 1 of 1"


def test_nested_joins_are_jobs_of_the_tree(context: Context) -> None:
    with deployed(check=True, stages=NESTED) as stack:
        root = begun(stack, context, {"years": requests(2)})
        run_all(stack, "years", context, lambda _: {"months": requests(2)})
        run_all(stack, "months", context, lambda _: {"days": requests(2)})
        for name in ("days", "month", "year"):
            assert not walked(stack, root).has_ended
            run_all(stack, name, context)
        assert progress(walked(stack, root)).endswith("all 0 of 1")
        run_all(stack, "all", context)
        assert walked(stack, root).has_succeeded


def test_a_tree_has_ended_when_its_join_waits_for_none_but_the_cancelled(context: Context) -> None:
    with deployed(check=True, stages=BY_DATE) as stack:
        root = begun(stack, context, {"fetch": requests(2)})
        queued = walked(stack, root).children[0]
        parts = stack.parts
        stack.aws.clock.advance(1)
        Canceller(parts.leases, parts.finisher).cancel("fetch", queued.job_id)
        assert not walked(stack, root).has_ended
        for row in dispatched(stack, stack.settings.stage("fetch"), context):
            if row.state is State.RUNNING:
                commit(stack, row, {"clean": requests(0)}, seal="5ea1")
                settled(row, context)
        tree = walked(stack, root)
        assert (tree.has_ended, tree.has_succeeded) == (True, False)
        assert progress(tree) == "main 1 of 1, fetch 1 of 2 (1 CANCELLED), delays waits for 1"
