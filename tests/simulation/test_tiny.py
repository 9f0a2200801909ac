"""Worlds with jobs of the size `tiny`: what Lambda does to their invocations."""

import random
from dataclasses import replace

from simulation.aws.clock import VirtualClock
from simulation.aws.platform.hosts import Host, raise_error
from simulation.aws.platform.timeline import Timeline
from simulation.worlds.plan import TINY, Job, Plan
from simulation.worlds.run import run
from simulation.worlds.tiny import TINY_WORLDS, with_tiny


def happened(plan: Plan, *words: str) -> list[str]:
    """The lines of a world's history with one of the words, without their times."""
    lines: list[str] = []
    assert run(plan, trace=lines.append).violation is None
    return [line.split(maxsplit=1)[1] for line in lines if any(word in line for word in words)]


def containers(name: str) -> list[str]:
    return happened(TINY_WORLDS[name], "container ")


def test_a_frozen_host_stands_still_and_goes_on_where_it_was_once_it_is_thawed() -> None:
    timeline, seen = Timeline(VirtualClock()), []
    host = Host(timeline, "frozen", random.Random(1))

    def work() -> None:
        for _ in range(3):
            seen.append((timeline.clock.now() - start).total_seconds())
            timeline.sleep(1)

    start = timeline.clock.now()
    host.run(work, raise_error)
    timeline.after(1.5, host.freeze)
    timeline.after(60, host.thaw)
    while timeline.step(timeline.clock.now().replace(year=2030)):
        pass

    assert seen == [0, 1, 60]


def test_a_tiny_job_runs_in_an_invocation_and_no_task() -> None:
    assert containers("a tiny job succeeds") == [
        "container began: tiny@j0-1.1",
        "container over: tiny@j0-1.1 ok",
    ]


def test_of_an_invocation_that_runs_twice_one_run_withdraws() -> None:
    assert sorted(containers("a tiny job's invocation runs twice")) == [
        "container began: tiny@j0-1.1",
        "container began: tiny@j0-1.2",
        "container over: tiny@j0-1.1 ok",
        "container over: tiny@j0-1.2 superseded",
    ]


def test_out_of_memory_goes_on_as_a_task() -> None:
    assert containers("a tiny job runs out of memory") == [
        "container began: tiny@j0-1.1",
        "container over: tiny@j0-1.1 oom_killed",
        "container began: task@j0-2.1",
        "container over: task@j0-2.1 EssentialContainerExited exit 0 (ok)",
    ]


def test_a_dead_job_that_is_sent_again_does_not_wait_until_its_invocation_must_have_ended() -> None:
    lines: list[str] = []
    plan = TINY_WORLDS["a tiny job dies, and its correction runs at once"]
    assert run(plan, trace=lines.append).violation is None
    (began,) = (line for line in lines if line.endswith("container began: tiny@j0-2.1"))
    assert began.split()[0].startswith("0:01:00")  # the second in which it is sent


def test_a_job_that_asks_for_more_time_than_lambda_has_is_a_task() -> None:
    assert containers("a tiny job asks for more time than Lambda has")[0] == (
        "container began: task@j0-1.1"
    )


def test_an_invocation_whose_execution_was_stopped_ends_itself_at_its_next_report() -> None:
    lines = happened(
        TINY_WORLDS["a tiny job's execution is stopped, and its invocation goes on"], "container "
    )
    assert lines[:2] == [
        "container began: tiny@j0-1.1",
        "container over: tiny@j0-1.1 superseded",
    ]


def test_what_was_frozen_in_mid_report_goes_on_beside_the_next_attempt_and_writes_nothing() -> None:
    lines = happened(
        TINY_WORLDS["a tiny job's environment is frozen (4)"], "container ", "tiny@j0-1.1  dynamodb"
    )
    first = lines.index("container over: tiny@j0-1.1 stopped")
    later = lines[first + 1 :]

    assert later[0] == "container began: tiny@j0-2.1"
    written = [line for line in later if line.startswith("tiny@j0-1.1")]
    assert written
    assert all("refused" in line for line in written)
    assert later[-1] == "container over: tiny@j0-2.1 ok"


def test_lambda_without_room_ends_no_job_however_often_it_refuses() -> None:
    plan = TINY_WORLDS["Lambda has no room for a tiny job for hours"]
    lines = happened(plan, "container ", "last_class=not_placed")

    assert len([line for line in lines if "state=RELEASED" in line]) > 20
    assert [line for line in lines if "container over" in line] == [lines[-1]]
    assert lines[-1].endswith(" ok")


def test_only_short_jobs_of_some_worlds_are_drawn_as_tiny() -> None:
    plan = replace(Plan(), jobs=tuple(Job(f"j{n}", work_s=n * 200.0) for n in range(9)))

    drawn = with_tiny(random.Random(1), plan)
    assert {job.work_s <= 600 for job in drawn.jobs if job.size == TINY} == {True}
