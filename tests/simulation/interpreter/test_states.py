"""Executions: what they hold, seven days of beats, and the tries of a task."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from longhaul.cdk import definition
from longhaul.cdk.definition import SETTLE_RETRY
from longhaul.core.request import MAX_TIMEOUT_S
from simulation.aws.stepfunctions.asl.limits import (
    MAX_BYTES,
    ExecutionError,
    sized,
)
from simulation.aws.stepfunctions.interpreter import Done
from simulation.aws.template import deployed
from tests.simulation.interpreter.small_machines import (
    CALL,
    INPUT,
    JOB,
    RUN_TASK,
    Call,
    World,
    attempt,
    chain,
    failing,
    parallel,
)


def test_endless_execution_fails_when_its_history_is_full() -> None:
    rounds = chain(
        Wait={"Type": "Wait", "Seconds": 300, "Next": "Again"},
        Again={
            "Type": "Choice",
            "Choices": [{"Variable": "$.x", "StringEquals": "x", "Next": "End"}],
            "Default": "Wait",
        },
        End={"Type": "Succeed"},
    )
    world = World(
        chain(Both=parallel(rounds, chain(Job={**JOB, "TimeoutSeconds": 99_999_999, "End": True})))
    )
    world.start({"x": ""}).run(100 * 86_400)
    assert world.outcome[:3] == (
        "FAILED",
        "States.Runtime",
        "The execution reached the maximum number of history events (25000).",
    )
    assert len(world.history) == 25_000
    assert world.calls[0].cancelled


def test_seven_days_of_beats_fit_into_the_history() -> None:
    world = attempt(lasts_s=MAX_TIMEOUT_S - 1)
    assert world.end["status"] == "SUCCEEDED"
    assert 18_000 < len(world.history) < 20_000


def test_machine_is_refused_at_its_first_start() -> None:
    world = World(chain(Do={**CALL, "End": True}))
    later = world.sfn.create_state_machine(
        name="Later", definition=json.dumps(chain(M={"Type": "Map"})), roleArn="r"
    )
    with pytest.raises(ValidationError, match="Map"):
        world.sfn.start_execution(stateMachineArn=later["stateMachineArn"], name="x", input="{}")


@pytest.mark.parametrize(("character", "bytes_each"), [("x", 1), ("é", 2), ("☂", 3)])
def test_payload_has_at_most_the_bytes_that_step_functions_allows(
    character: str, bytes_each: int
) -> None:
    quotes = 2
    most = (MAX_BYTES - quotes) // bytes_each

    assert sized(character * most, "State") == character * most
    with pytest.raises(ExecutionError, match="'State'") as failure:
        sized(character * (most + 1), "State")
    assert failure.value.error == "States.DataLimitExceeded"


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


# Tries: retries and timeouts.


BEAT_RETRY = {**definition.BEAT_RETRY, "MaxDelaySeconds": 300}


@given(seed=st.integers(0, 2**32), retry=st.sampled_from([SETTLE_RETRY, BEAT_RETRY]))
@settings(max_examples=40, deadline=None)
def test_number_and_pauses_of_retries_are_within_their_bounds(
    seed: int, retry: dict[str, Any]
) -> None:
    world = World(chain(Do={**CALL, "Retry": [retry], "End": True}), seed, failing()).start().run()
    pauses = [
        (b.at - a.at).total_seconds() for a, b in zip(world.calls, world.calls[1:], strict=False)
    ]
    assert len(pauses) == retry["MaxAttempts"]
    for retries, pause in enumerate(pauses):
        longest = min(
            retry["IntervalSeconds"] * retry["BackoffRate"] ** retries, retry["MaxDelaySeconds"]
        )
        assert 0 <= pause <= longest + 0.001  # the clock's tick
    assert world.outcome[:2] == ("FAILED", "Bad")


def test_pause_before_a_retry_is_from_zero_to_the_longest() -> None:
    machine = chain(
        Do={
            **CALL,
            "Retry": [{**SETTLE_RETRY, "IntervalSeconds": 10, "MaxAttempts": 1}],
            "End": True,
        }
    )
    worlds = [World(machine, seed, failing()).start().run() for seed in range(60)]
    pauses = [(world.calls[1].at - world.calls[0].at).total_seconds() for world in worlds]
    assert min(pauses) < 1
    assert max(pauses) > 9


def test_each_entry_into_a_state_counts_its_own_retries() -> None:
    do = {
        **CALL,
        "Retry": [{**BEAT_RETRY, "MaxAttempts": 3}],
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Pause"}],
        "End": True,
    }
    world = World(
        chain(Do=do, Pause={"Type": "Wait", "Seconds": 1000, "Next": "Do"}), answer=failing()
    )
    world.start().run(1500)
    assert len(world.calls) == 2 * (1 + 3)


def test_each_try_has_the_whole_timeout_and_a_later_answer_has_no_effect() -> None:
    world = (
        World(chain(Do={**CALL, "Retry": [{**BEAT_RETRY, "MaxAttempts": 1}], "End": True}))
        .start()
        .run(61)
    )
    world.calls[0].tell(Done("too late"))
    world.run()
    first, second = world.calls
    assert (second.at - first.at).total_seconds() >= 60
    assert world.outcome == ("FAILED", "States.Timeout", None, None)
    assert world.history.count("TaskTimedOut Do") == 2
    assert not world.engine.runs


@pytest.mark.parametrize(
    ("state", "stops", "is_stopped"), [(JOB, True, True), (JOB, False, False), (CALL, True, False)]
)
def test_world_decides_whether_a_timeout_stops_the_task_and_never_stops_a_function(
    state: dict[str, Any], *, stops: bool, is_stopped: bool
) -> None:
    world = World(chain(Do={**state, "End": True})).start()
    world.engine.timeout_stops_sync = lambda: stops
    world.run()
    assert world.calls[0].cancelled is is_stopped
