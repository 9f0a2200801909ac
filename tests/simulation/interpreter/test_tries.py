"""Task states: data, retries, catches, timeouts."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.cdk import definition
from longhaul.cdk.definition import SETTLE_RETRY
from simulation.aws.stepfunctions.integration import Done, Failed, Submitted
from tests.simulation.interpreter.small_machines import (
    CALL,
    FAIL,
    JOB,
    LAMBDA,
    RUN_TASK,
    Call,
    World,
    chain,
    failing,
    parallel,
)

BEAT_RETRY = {**definition.BEAT_RETRY, "MaxDelaySeconds": 300}


def test_result_path_and_output_path_select_the_output() -> None:
    do = {
        **CALL,
        "ResultSelector": {"b.$": "$.B"},
        "ResultPath": "$.r",
        "OutputPath": "$.r.b",
        "End": True,
    }
    world = (
        World(chain(Do=do), answer=lambda call: call.tell(Done({"B": [1], "C": 2})))
        .start({"a": 1})
        .run()
    )
    assert world.outcome == ("SUCCEEDED", None, None, "[1]")


def test_caught_error_is_put_into_the_input_without_output_path() -> None:
    catch = [{"ErrorEquals": ["Bad"], "ResultPath": "$.error", "Next": "Caught"}]
    do = {**CALL, "OutputPath": "$.never", "Catch": catch, "End": True}
    world = World(chain(Do=do, Caught={"Type": "Succeed"}), answer=failing()).start({"a": 1}).run()
    assert json.loads(world.end["output"]) == {"a": 1, "error": {"Error": "Bad", "Cause": "very"}}


def test_first_matching_catcher_decides() -> None:
    catch = [
        {"ErrorEquals": ["Other"], "Next": "No"},
        {"ErrorEquals": ["Bad", "Worse"], "Next": "Yes"},
        {"ErrorEquals": ["States.ALL"], "Next": "No"},
    ]
    do = chain(
        Do={**CALL, "Catch": catch, "End": True},
        No={**FAIL, "Error": "No"},
        Yes={**FAIL, "Error": "Yes"},
    )
    assert World(do, answer=failing("Worse")).start().run().end["error"] == "Yes"


def test_uncaught_error_fails_the_execution_under_its_name() -> None:
    world = World(chain(Do={**CALL, "End": True}), answer=failing()).start().run()
    assert world.outcome == ("FAILED", "Bad", "very", None)
    assert not world.engine.runs


@pytest.mark.parametrize(
    "broken",
    [
        {"Parameters": {"In.$": "$.nowhere"}},
        {"ResultSelector": {"out.$": "$.nowhere"}},
        {"OutputPath": "$.nowhere"},
        {"Parameters": {"In": "x" * 262_144}},
    ],
    ids=["parameters", "result selector", "output path", "too long"],
)
def test_wrong_data_passes_every_retry_and_catch(
    broken: dict[str, Any],
) -> None:
    everything = {"ErrorEquals": ["States.ALL"], "Next": "Caught"}
    do = {**CALL, "Retry": [SETTLE_RETRY], "Catch": [everything], **broken, "End": True}
    job = chain(Job={**JOB, "End": True})
    both = parallel(
        job, chain(Do=do, Caught={"Type": "Succeed"}), Catch=[{**everything, "Next": "Caught too"}]
    )

    def answer(call: Call) -> None:
        if call.resource == LAMBDA:
            call.tell(Done({"some": "thing"}))

    world = (
        World(chain(**{"Both": both, "Caught too": {"Type": "Succeed"}}), answer=answer)
        .start({"a": 1})
        .run()
    )
    assert world.end["error"] in ("States.Runtime", "States.DataLimitExceeded")
    assert [call.cancelled for call in world.calls if call.resource == RUN_TASK] == [True]


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


def test_each_retrier_counts_its_own_retries() -> None:
    retries = [
        {**BEAT_RETRY, "ErrorEquals": ["A"], "MaxAttempts": 1},
        {**BEAT_RETRY, "MaxAttempts": 1},
    ]
    errors = iter(["B", "A", "A"])
    machine = chain(Do={**CALL, "Retry": retries, "End": True})
    world = World(machine, answer=lambda call: call.tell(Failed(next(errors), ""))).start().run()
    assert len(world.calls) == 3


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


def test_only_the_first_result_counts() -> None:
    def answer_twice(call: Call) -> None:
        call.tell(Done(1))
        call.tell(Failed("Bad", "very"))

    assert (
        World(chain(Do={**CALL, "End": True}), answer=answer_twice).start().run().outcome[0]
        == "SUCCEEDED"
    )


@pytest.mark.parametrize("stops", [False, True])
def test_world_decides_whether_a_timeout_stops_the_task(*, stops: bool) -> None:
    world = World(chain(Job={**JOB, "End": True})).start()
    world.engine.timeout_stops_sync = lambda: stops
    world.run()
    assert world.calls[0].cancelled is stops


def test_timeout_never_stops_a_function() -> None:
    world = World(chain(Do={**CALL, "End": True})).start()
    world.engine.timeout_stops_sync = lambda: True
    world.run()
    assert not world.calls[0].cancelled


def test_accepted_job_of_a_sync_task_is_in_the_history() -> None:
    def answer(call: Call) -> None:
        call.tell(Submitted())
        call.tell(Done({}))

    world = World(chain(Job={**JOB, "End": True}), answer=answer).start().run()
    tasks = [event.removesuffix(" Job") for event in world.history if event.startswith("Task")]
    assert tasks == [
        "TaskStateEntered",
        "TaskScheduled",
        "TaskStarted",
        "TaskSubmitted",
        "TaskSucceeded",
        "TaskStateExited",
    ]
