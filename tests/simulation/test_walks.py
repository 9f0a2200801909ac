"""The way of a job through the files, as `make walks` prints it."""

from simulation.tools.walks import lines, walks
from tests.layers import ROOT

REACHED = {
    "dispatcher": (
        "functions/dispatcher.py",
        "longhaul/core/dispatch.py",
        "longhaul/core/store/leases.py",
        "longhaul/core/claim.py",
        "longhaul/core/executions.py",
    ),
    "settle": (
        "functions/settle.py",
        "longhaul/core/settle.py",
        "longhaul/core/finish.py",
        "longhaul/core/queue.py",
    ),
    "status": (
        "longhaul/cli/entry.py",
        "longhaul/cli/commands/status.py",
        "longhaul/core/store/leases.py",
        "longhaul/operations/view.py",
    ),
}


def test_a_file_that_was_left_and_is_reached_again_is_a_return() -> None:
    assert list(lines("walk", ("a", "b", "a", "c", "a"))) == [
        "   1  a",
        "   2  b",
        "      back to  1  a",
        "   3  c",
        "      back to  1  a",
        "walk: 3 files, 2 returns",
    ]


def test_walk_begins_where_aws_calls_and_reaches_what_does_the_work() -> None:
    found = walks()
    assert found == walks()
    assert found.keys() == {"dispatcher", "task", "heartbeat", "settle", "sweeper", "status"}
    for kind, reached in REACHED.items():
        assert found[kind][0] == reached[0]
        places = [found[kind].index(each) for each in reached]
        assert places == sorted(places)
    assert all((ROOT / file).is_file() for files in found.values() for file in files)
