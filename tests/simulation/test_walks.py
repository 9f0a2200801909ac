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


def test_a_file_says_what_it_is_for_and_is_a_return_where_it_is_reached_again() -> None:
    queue, starts = "longhaul/core/queue.py", "longhaul/core/executions.py"
    assert list(lines("walk", (queue, starts, queue))) == [
        f"   1  {queue}: SQS: visibility, deletion, sending.",
        f"   2  {starts}: Step Functions executions of our one state machine.",
        f"      back to  1  {queue}",
        "walk: 2 files, 1 returns",
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
