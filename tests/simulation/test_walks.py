"""The way of a message through the files, as `make walks` prints it."""

import re

import pytest

from simulation.tools import walks
from simulation.tools.walks import Walk, walk_all
from tests.layers import ROOT


@pytest.fixture(scope="module")
def found() -> list[Walk]:
    return walk_all()


def test_a_file_that_was_left_and_is_reached_again_is_a_return() -> None:
    walk = Walk("walk")
    for file in ("a", "b", "b", "a", "c", "a"):
        walk.reach(file)
    assert (walk.distinct, walk.returns) == (3, 2)
    assert list(walk.lines()) == [
        "   1  a",
        "   2  b",
        "      back to  1  a",
        "   3  c",
        "      back to  1  a",
        "walk: 3 files, 2 returns",
    ]


@pytest.mark.parametrize(
    ("number", "first", "reached"),
    [
        (
            0,
            "functions/dispatcher.py",
            [
                "longhaul/core/dispatch.py",
                "longhaul/core/store/leases.py",
                "longhaul/core/claim.py",
                "longhaul/core/executions.py",
            ],
        ),
        (
            1,
            "functions/settle.py",
            ["longhaul/core/settle.py", "longhaul/core/finish.py", "longhaul/core/queue.py"],
        ),
        (
            2,
            "longhaul/cli/entry.py",
            ["longhaul/cli/commands/status.py", "longhaul/core/store/leases.py"],
        ),
    ],
)
def test_walk_begins_where_aws_or_a_user_calls_and_reaches_what_does_the_work(
    found: list[Walk], number: int, first: str, reached: list[str]
) -> None:
    files = found[number].files
    assert files[0] == first
    places = [files.index(each) for each in reached]
    assert places == sorted(places)
    assert all((ROOT / file).is_file() for file in files)


def test_each_run_takes_the_same_way(found: list[Walk]) -> None:
    assert walk_all() == found


def test_last_line_has_the_numbers_of_the_files_that_were_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    walks.main()
    *printed, last = capsys.readouterr().out.splitlines()
    blocks = "\n".join(printed).split("\n\n")
    counts = [len(re.findall(r"^ +\d+  \S+\.py$", block, re.MULTILINE)) for block in blocks[:3]]
    assert last == "received_started={} ended_deleted={} status={}".format(*counts)
