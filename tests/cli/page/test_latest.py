"""The page goes on when AWS is slow or fails."""

from collections.abc import Callable
from threading import Event, Thread

import pytest

from longhaul.cli.errors import CommandError
from longhaul.cli.page.latest import Views, in_thread
from simulation.aws.clock import VirtualClock


def test_a_slow_value_is_awaited_briefly_and_shown_when_it_comes() -> None:
    clock, release = VirtualClock(), Event()

    def slow() -> str:
        release.wait(30)
        return "second"

    views = Views(clock.now, patience_s=0.01)
    seen = views.get("x", slow)
    assert (seen.value, seen.problem) == (None, "AWS has not answered yet")
    release.set()
    views = Views(clock.now, patience_s=30)
    assert views.get("x", slow).value == "second"


def test_the_last_value_stays_while_the_next_is_awaited() -> None:
    clock, asked, slow = VirtualClock(), [], list[Callable[[], None]]()

    def fetch() -> int:
        asked.append(1)
        return len(asked)

    def spawn(work: Callable[[], None]) -> None:
        if asked:
            slow.append(work)
        else:
            work()

    views = Views(clock.now, spawn, patience_s=0)
    began = clock.now()
    assert views.get("x", fetch).value == 1
    clock.advance(2)
    for _ in range(3):
        seen = views.get("x", fetch)
        assert (seen.value, seen.at, seen.problem) == (1, began, "AWS has not answered yet")
    assert len(slow) == 1  # one at a time, for any number of looks
    slow[0]()
    assert views.get("x", fetch).value == 2


def test_simultaneous_looks_share_one_fetch() -> None:
    clock, asked, go = VirtualClock(), [], Event()

    def fetch() -> str:
        asked.append(1)
        go.wait(30)
        return "answer"

    views = Views(clock.now, patience_s=30)
    seen: list[str | None] = []
    threads = [Thread(target=lambda: seen.append(views.get("x", fetch).value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert (len(asked), seen) == (1, ["answer"] * 8)


def test_an_action_makes_the_next_look_fetch_again(inline: Callable[[], Views]) -> None:
    views, asked = inline(), []
    for _ in range(2):
        views.get("x", lambda: asked.append(1))
    assert len(asked) == 1
    views.outdate()
    views.get("x", lambda: asked.append(1))
    assert len(asked) == 2


def test_a_problem_is_a_sentence_and_is_not_retried_at_once(
    inline: Callable[[], Views],
) -> None:
    views, asked = inline(), []

    def fetch() -> None:
        asked.append(1)
        raise CommandError("no such thing")

    assert [views.get("x", fetch).problem for _ in range(3)] == ["no such thing"] * 3
    assert len(asked) == 1


def test_a_defect_is_raised_and_not_shown_as_a_problem_of_aws(inline: Callable[[], Views]) -> None:
    def fetch() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        inline().get("x", fetch)


def test_views_that_are_no_longer_looked_at_are_forgotten(inline: Callable[[], Views]) -> None:
    views, asked = inline(), []
    for n in range(40):
        views.get(n, lambda n=n: asked.append(n))
    views.get(39, lambda: asked.append("late"))
    views.get(0, lambda: asked.append("again"))
    assert asked[-2:] == [39, "again"]


def test_a_pending_fetch_does_not_keep_the_process_alive() -> None:
    done = Event()
    in_thread(done.set)
    assert done.wait(30)


@pytest.fixture
def inline() -> Callable[[], Views]:
    return lambda: Views(VirtualClock().now, spawn=lambda work: work())
