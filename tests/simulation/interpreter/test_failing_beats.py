"""Beats that fail for as long as a job may run leave room in the execution's history."""

from itertools import pairwise
from typing import Any

import pytest

from longhaul.core.request import MAX_TIMEOUT_S
from simulation.aws.stepfunctions.integration import Done
from simulation.aws.template import deployed
from tests.simulation.interpreter.small_machines import RUN_TASK, Call, World, failing

INPUT = {
    "key": "main#a",
    "stage": "main",
    "run": "1",
    "attempt": "1",
    "engine": "fargate",
    "capacity": "FARGATE",
    "job": "flights_clean",
    "size": "small",
    "timeout_s": MAX_TIMEOUT_S,
    "job_tag": "flights_clean",
    "label_tag": "",
    "first_wait_s": 15,
}


def beats(answer: Any) -> World:
    """A job that runs for as long as any may, whose beats all end like this."""

    def answered(call: Call) -> None:
        if call.resource != RUN_TASK:
            answer(call)

    return World(deployed().definition, answer=answered).start(INPUT).run(MAX_TIMEOUT_S - 1)


@pytest.mark.parametrize(
    "answer",
    [
        failing("Runtime.ImportModuleError", "a bad deploy"),
        lambda call: call.tell(
            Done({"Payload": {"next": "newer", "wait_s": 5, "cause": ""}, "StatusCode": 200})
        ),
    ],
    ids=["failing", "unknown"],
)
def test_week_of_beats_that_fail_or_are_unknown_leaves_room_in_the_history(answer: Any) -> None:
    world = beats(answer)

    assert world.end["status"] == "RUNNING"
    assert len(world.history) <= 22_000  # of 25,000


def test_failing_beats_come_often_enough_to_go_on_within_minutes() -> None:
    world = beats(failing())

    times = [call.at for call in world.calls if call.resource != RUN_TASK]
    longest = max((after - before).total_seconds() for before, after in pairwise(times))
    assert longest <= 300 + 1
