"""`ports.Background` in threads and in virtual time: the same tests for both."""

import gc
import random
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Protocol

import pytest

from longhaul.core.background import Threads
from longhaul.core.errors import TimeUpError
from longhaul.core.ports import Background, Timer
from simulation.aws.clock import VirtualClock
from simulation.aws.platform.hosts import Host, HostBackground
from simulation.aws.platform.timeline import Timeline


class Place(Protocol):
    """Where code runs. Times are in units, short in threads and long in virtual time."""

    background: Background
    unit_s: float

    def run(self, work: Callable[[], Any]) -> Any: ...

    def sleep(self, units: float) -> None: ...


class InThreads:
    background = Threads()
    unit_s = 0.03

    def run(self, work: Callable[[], Any]) -> Any:
        return work()

    def sleep(self, units: float) -> None:
        time.sleep(units * self.unit_s)


class InVirtualTime:
    background = HostBackground()
    unit_s = 1.0

    def __init__(self) -> None:
        self._timeline = Timeline(VirtualClock())
        self._host = Host(self._timeline, "host", random.Random(1))

    def run(self, work: Callable[[], Any]) -> Any:
        ended: list[Any] = []
        self._host.run(work, lambda *end: ended.append(end))
        while not ended and self._timeline.step(self._timeline.clock.now().replace(year=2027)):
            pass
        ((error, result),) = ended
        if error is not None:
            raise error
        return result

    def sleep(self, units: float) -> None:
        self._timeline.sleep(units * self.unit_s)


@pytest.fixture(params=[InThreads, InVirtualTime])
def place(request: pytest.FixtureRequest) -> Place:
    made: Place = request.param()
    return made


def wait_until(place: Place, condition: Callable[[], Any]) -> None:
    """Wait generously: threads on a busy machine are slow."""
    for _ in range(1_000):
        if condition():
            return
        place.sleep(0.2)
    raise AssertionError("the condition never held")


BOUNDED = pytest.mark.parametrize("units", [None, 1_000], ids=["without end", "in time"])
"""Whether the tasks have a time by which they must have ended."""


def within_s(place: Place, units: float | None) -> float | None:
    return None if units is None else units * place.unit_s


@BOUNDED
def test_tasks_run_concurrently_up_to_the_limit_and_results_keep_their_order(
    place: Place, units: float | None
) -> None:
    lock = threading.Lock()
    running: set[int] = set()
    most = 0

    def task(number: int) -> int:
        nonlocal most
        with lock:
            running.add(number)
            most = max(most, len(running))
        wait_until(place, lambda: most >= 3)
        with lock:
            running.remove(number)
        return number

    tasks = [partial(task, number) for number in range(5)]

    limit_s = within_s(place, units)
    found = place.run(lambda: place.background.run_all(tasks, at_once=3, within_s=limit_s))
    assert found == [0, 1, 2, 3, 4]
    assert most == 3


@pytest.mark.parametrize("count", [0, 1])
def test_no_task_or_one_task_returns_its_results(place: Place, count: int) -> None:
    tasks = [lambda: "done"] * count

    assert place.run(lambda: place.background.run_all(tasks, at_once=3)) == ["done"] * count


@BOUNDED
def test_first_error_is_raised_after_the_started_tasks_have_ended(
    place: Place, units: float | None
) -> None:
    seen, limit_s = set(), within_s(place, units)

    def fail() -> None:
        wait_until(place, lambda: "other begins" in seen)
        raise ZeroDivisionError

    def other() -> None:
        seen.add("other begins")
        place.sleep(6)
        seen.add("other ends")

    def never() -> None:
        seen.add("never begins")

    tasks = [fail, other, never]
    with pytest.raises(ZeroDivisionError):
        place.run(lambda: place.background.run_all(tasks, at_once=2, within_s=limit_s))
    assert seen == {"other begins", "other ends"}


def test_tasks_that_are_late_are_left_behind_and_no_more_are_begun(place: Place) -> None:
    seen = set()

    def late() -> None:
        seen.add("late begins")
        wait_until(place, lambda: "given up" in seen)
        seen.add("late ends")

    def never() -> None:
        seen.add("never begins")

    def work() -> None:
        with pytest.raises(TimeUpError):
            # Long enough for a thread to begin on a busy machine.
            place.background.run_all([late, never], at_once=1, within_s=60 * place.unit_s)
        assert seen == {"late begins"}
        seen.add("given up")
        wait_until(place, lambda: "late ends" in seen)
        place.sleep(2)

    place.run(work)
    assert seen == {"late begins", "given up", "late ends"}


def test_no_task_is_begun_without_time(place: Place) -> None:
    with pytest.raises(TimeUpError):
        place.run(lambda: place.background.run_all([pytest.fail], at_once=1, within_s=0))


def test_delayed_call_is_made_once_and_not_early(place: Place) -> None:
    calls = []

    def work() -> None:
        place.background.after(40 * place.unit_s, lambda: calls.append(1))
        assert calls == []
        wait_until(place, lambda: calls)
        place.sleep(6)

    place.run(work)
    assert calls == [1]


def test_call_cancelled_in_time_is_not_made(place: Place) -> None:
    calls = []

    def work() -> None:
        place.background.after(20 * place.unit_s, lambda: calls.append(1)).cancel()
        place.sleep(24)

    place.run(work)
    assert calls == []


def test_calls_repeat_until_cancelled(place: Place) -> None:
    calls = []

    def work() -> int:
        timer = place.background.every(place.unit_s, lambda: calls.append(1))
        wait_until(place, lambda: len(calls) >= 3)
        timer.cancel(wait_s=60 * place.unit_s)
        made = len(calls)
        place.sleep(4)
        return made

    assert place.run(work) == len(calls)


def test_cancel_waits_for_a_call_in_progress(place: Place) -> None:
    seen = []

    def call() -> None:
        seen.append("begins")
        place.sleep(3)
        seen.append("ends")

    def work() -> None:
        timer = place.background.every(place.unit_s, call)
        wait_until(place, lambda: seen)
        timer.cancel(wait_s=600 * place.unit_s)
        seen.append("cancelled")
        place.sleep(4)

    place.run(work)
    assert seen[-2:] == ["ends", "cancelled"]


def test_cancel_gives_up_waiting_after_its_limit(place: Place) -> None:
    seen = []

    def call() -> None:
        seen.append("begins")
        wait_until(place, lambda: "cancelled" in seen)
        seen.append("ends")

    def work() -> None:
        timer = place.background.every(place.unit_s, call)
        wait_until(place, lambda: seen)
        timer.cancel(wait_s=place.unit_s)
        seen.append("cancelled")
        wait_until(place, lambda: "ends" in seen)

    place.run(work)
    assert seen == ["begins", "cancelled", "ends"]


def test_call_that_cancels_its_own_repetition_does_not_wait_for_itself(place: Place) -> None:
    seen = []

    def work() -> None:
        timers: list[Timer] = []

        def call() -> None:
            seen.append("begins")
            timers[0].cancel(wait_s=600 * place.unit_s)
            seen.append("ends")

        timers.append(place.background.every(place.unit_s, call))
        wait_until(place, lambda: "ends" in seen)
        place.sleep(3)

    place.run(work)
    assert seen == ["begins", "ends"]


class Large:
    """What a caller holds while its tasks run."""


@pytest.mark.parametrize("within_s", [None, 60])
def test_an_error_keeps_nothing_of_its_callers_once_it_is_handled(within_s: float | None) -> None:
    def fails() -> None:
        raise ValueError

    def work() -> "weakref.ref[Large]":
        held = Large()
        seen = weakref.ref(held)
        try:
            Threads().run_all([fails, fails], at_once=2, within_s=within_s)
        except ValueError:
            return seen
        raise AssertionError(held)

    gc.disable()
    try:
        assert work()() is None
    finally:
        gc.enable()


def test_no_task_goes_on_behind_the_caller_where_few_threads_can_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, begun, done = threading.Thread.start, count(1), list[int]()

    def start_few(thread: threading.Thread) -> None:
        if next(begun) > 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_few)

    Threads().run_all([partial(done.append, number) for number in range(20)], at_once=8)

    assert sorted(done) == list(range(20))
