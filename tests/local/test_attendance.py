"""What runs in the background, from its beginning to its end."""

from collections.abc import Iterator
from threading import Event, Thread

import pytest

from local.attendance import Attendance
from tests.local.support import DEADLINE_S


class Work:
    """Runs until it may end."""

    def __init__(self) -> None:
        self.begun, self.may_end = Event(), Event()

    def attend(self) -> None:
        self.begun.set()
        assert self.may_end.wait(DEADLINE_S)


@pytest.fixture
def attendance() -> Iterator[Attendance[Work]]:
    made: Attendance[Work] = Attendance()
    yield made
    made.close()
    for name in made:
        made[name].may_end.set()
    made.join()


def begun(attendance: Attendance[Work], name: str) -> Work:
    work = Work()
    attendance.begin(name, work, Work.attend)
    assert work.begun.wait(DEADLINE_S)
    return work


def test_what_begins_is_known_by_its_name_also_when_it_has_ended(attendance: Attendance[Work]) -> None:
    first, second = begun(attendance, "first"), begun(attendance, "second")
    heard = Event()
    attendance.on_end("first", heard.set)
    assert not attendance.has_ended("first")

    first.may_end.set()

    assert heard.wait(DEADLINE_S)
    assert (list(attendance), attendance["first"], attendance["second"]) == (["first", "second"], first, second)
    assert (attendance.has_ended("first"), attendance.has_ended("second")) == (True, False)


def test_all_who_wait_for_an_end_hear_of_it_once_and_who_comes_later_at_once(attendance: Attendance[Work]) -> None:
    work, heard, all_heard = begun(attendance, "it"), list[str](), Event()
    attendance.on_end("it", lambda: heard.append("first"))
    attendance.on_end("it", lambda: heard.append("second"))
    attendance.on_end("it", all_heard.set)

    work.may_end.set()
    assert all_heard.wait(DEADLINE_S)
    attendance.on_end("it", lambda: heard.append("late"))

    assert heard == ["first", "second", "late"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_fails_has_ended_too(attendance: Attendance[Work]) -> None:
    def fail(work: Work) -> None:
        work.begun.set()
        raise ValueError("of the test")

    heard = Event()
    work = Work()
    attendance.begin("it", work, fail)
    attendance.on_end("it", heard.set)

    assert heard.wait(DEADLINE_S)
    assert attendance.has_ended("it")


def test_nothing_begins_once_it_is_closed_and_what_runs_is_waited_for(attendance: Attendance[Work]) -> None:
    work = begun(attendance, "it")
    attendance.close()
    with pytest.raises(RuntimeError, match="the embedded AWS is stopping"):
        attendance.begin("late", Work(), Work.attend)
    joined = Event()
    waiting = Thread(target=lambda: (attendance.join(), joined.set()))
    waiting.start()
    assert not joined.is_set()

    work.may_end.set()

    assert joined.wait(DEADLINE_S)
    waiting.join()
    assert (list(attendance), attendance.has_ended("it")) == (["it"], True)
