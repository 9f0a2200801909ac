"""Events and processes in virtual time."""

from datetime import timedelta

from simulation.aws.clock import VirtualClock
from simulation.aws.platform.timeline import Timeline


def test_events_happen_in_the_order_of_time_and_then_of_scheduling() -> None:
    timeline, seen = Timeline(VirtualClock()), []
    for name, seconds in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        timeline.after(seconds, lambda name=name: seen.append(name))
    timeline.after(1.5, lambda: seen.append("never")).cancel()
    until = timeline.clock.now() + timedelta(seconds=10)
    while timeline.step(until):
        pass
    assert seen == ["first", "second", "late"]
    assert timeline.clock.now() == until


def test_processes_interleave_where_they_wait_and_a_killed_one_stops() -> None:
    timeline, seen = Timeline(VirtualClock()), list[object]()

    def work(name: str, seconds: float) -> str:
        for step in range(3):
            seen.append((name, step))
            timeline.sleep(seconds)
        return name

    timeline.spawn(
        lambda: work("slow", 2), ended=lambda error, answer: seen.append((error, answer))
    )
    killed = timeline.spawn(lambda: work("killed", 1), ended=lambda *end: seen.append(end))
    timeline.after(1.5, killed.kill)
    while timeline.step(timeline.clock.now() + timedelta(seconds=60)):
        pass
    assert seen == [
        ("slow", 0),
        ("killed", 0),
        ("killed", 1),
        ("slow", 1),
        ("slow", 2),
        (None, "slow"),
    ]


def test_error_of_a_process_is_passed_to_ended() -> None:
    timeline, ends = Timeline(VirtualClock()), []
    timeline.spawn(lambda: 1 / 0, ended=lambda error, answer: ends.append((type(error), answer)))
    timeline.step(timeline.clock.now())
    assert ends == [(ZeroDivisionError, None)]
