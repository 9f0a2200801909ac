"""The page goes on when AWS fails."""

from threading import Event, Thread

import pytest

from longhaul.cli.errors import CommandError
from longhaul.cli.page.latest import Views
from simulation.aws.clock import VirtualClock


@pytest.fixture
def views() -> Views:
    return Views(VirtualClock().now)


def test_simultaneous_looks_share_one_fetch(views: Views) -> None:
    asked, go = list[int](), Event()

    def fetch() -> str:
        asked.append(1)
        go.wait(30)
        return "answer"

    seen: list[str | None] = []
    threads = [Thread(target=lambda: seen.append(views.get("x", fetch).value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert (len(asked), seen) == (1, ["answer"] * 8)


def test_a_problem_is_a_sentence_and_is_not_retried_at_once(views: Views) -> None:
    asked = list[int]()

    def fetch() -> None:
        asked.append(1)
        raise CommandError("no such thing")

    assert [views.get("x", fetch).problem for _ in range(3)] == ["no such thing"] * 3
    assert len(asked) == 1


def test_a_defect_is_raised_and_not_shown_as_a_problem_of_aws(views: Views) -> None:
    def fetch() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        views.get("x", fetch)


def test_views_that_are_no_longer_looked_at_are_forgotten(views: Views) -> None:
    asked = list[int]()
    for n in (*range(40), 39, 0):
        views.get(n, lambda n=n: asked.append(n))
    assert asked[-2:] == [39, 0]
