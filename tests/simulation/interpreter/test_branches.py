"""Transitions between states, and Parallel states."""

import json

from simulation.aws.stepfunctions.integration import Done
from tests.simulation.interpreter.small_machines import (
    CALL,
    FAIL,
    JOB,
    RUN_TASK,
    World,
    chain,
    parallel,
)


def test_choice_compares_strings_only() -> None:
    rules = [
        {"Variable": "$.v", "StringEquals": value, "Next": "Yes"} for value in ("1", "true", "x")
    ]
    machine = chain(
        Which={"Type": "Choice", "Choices": rules, "Default": "No"},
        Yes={"Type": "Succeed"},
        No=FAIL,
    )
    found = {
        value: World(machine).start({"v": value}).run().end["status"]
        for value in ("x", 1, None, "y")
    }
    assert found == {"x": "SUCCEEDED", 1: "FAILED", None: "FAILED", "y": "FAILED"}
    assert World(machine).start({}).run().end["error"] == "States.Runtime"


def test_outputs_are_in_the_order_of_the_branches() -> None:
    both = parallel(
        chain(
            Slow={"Type": "Wait", "Seconds": 9, "Next": "A"},
            A={**CALL, "Parameters": {"x": "a"}, "End": True},
        ),
        chain(B={**CALL, "Parameters": {"x": "b"}, "End": True}),
        ResultSelector={"first.$": "$[0]", "second.$": "$[1]"},
    )
    world = (
        World(chain(Both=both), answer=lambda call: call.tell(Done(call.parameters["x"])))
        .start()
        .run()
    )
    assert json.loads(world.end["output"]) == {"first": "a", "second": "b"}


def test_failed_branch_stops_the_others_and_its_error_is_caught() -> None:
    both = parallel(
        chain(Job={**JOB, "End": True}),
        chain(Soon={"Type": "Wait", "Seconds": 5, "Next": "Bad"}, Bad=FAIL),
        chain(Long={"Type": "Wait", "Seconds": 500, "Next": "Never"}, Never={**CALL, "End": True}),
        Catch=[{"ErrorEquals": ["Bad"], "ResultPath": "$.error", "Next": "Caught"}],
    )
    world = World(chain(Both=both, Caught={"Type": "Succeed"})).start({"a": 1}).run()
    assert (
        [call.resource for call in world.calls if call.cancelled]
        == [RUN_TASK]
        == [call.resource for call in world.calls]
    )
    assert json.loads(world.end["output"]) == {"a": 1, "error": {"Error": "Bad", "Cause": "very"}}
    assert world.history[-8:] == [
        "FailStateEntered Bad",
        "TaskStateAborted Job",
        "WaitStateAborted Long",
        "ParallelStateFailed Both",
        "ParallelStateExited Both",
        "SucceedStateEntered Caught",
        "SucceedStateExited Caught",
        "ExecutionSucceeded",
    ]
