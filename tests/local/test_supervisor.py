from collections.abc import Iterator
from threading import Event, Thread

import pytest

from longhaul.local.supervisor import Supervisor
from tests.local.support import DEADLINE_S


class Work:
    """Runs until it may end."""

    def __init__(self) -> None:
        self.started, self.may_end = Event(), Event()

    def run(self) -> None:
        self.started.set()
        assert self.may_end.wait(DEADLINE_S)


@pytest.fixture
def supervisor() -> Iterator[Supervisor[Work]]:
    made: Supervisor[Work] = Supervisor()
    yield made
    made.close()
    for name in made:
        made[name].may_end.set()
    made.join()


def started(supervisor: Supervisor[Work], name: str) -> Work:
    work = Work()
    supervisor.start(name, work, Work.run)
    assert work.started.wait(DEADLINE_S)
    return work


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thing_that_raises_has_ended(supervisor: Supervisor[Work]) -> None:
    def fail(work: Work) -> None:
        work.started.set()
        raise ValueError("of the test")

    heard = Event()
    work = Work()
    supervisor.start("it", work, fail)
    supervisor.on_end("it", heard.set)

    assert heard.wait(DEADLINE_S)
    assert supervisor.has_ended("it")


def test_closed_supervisor_refuses_starts_and_waits_for_what_runs(
    supervisor: Supervisor[Work],
) -> None:
    work = started(supervisor, "it")
    supervisor.close()
    with pytest.raises(RuntimeError, match="the embedded AWS is stopping"):
        supervisor.start("late", Work(), Work.run)
    joined = Event()
    waiting = Thread(target=lambda: (supervisor.join(), joined.set()))
    waiting.start()
    assert not joined.is_set()

    work.may_end.set()

    assert joined.wait(DEADLINE_S)
    waiting.join()
    assert (list(supervisor), supervisor.has_ended("it")) == (["it"], True)
