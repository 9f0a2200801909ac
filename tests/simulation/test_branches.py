"""How an execution goes from state to state, and what Parallel states do."""

import json

import pytest

from tests.simulation.integration import Done
from tests.simulation.small_machines import CALL, FAIL, JOB, RUN_TASK, World, chain, parallel


@pytest.mark.parametrize(
    ("seconds", "waits"), [(0, True), (15, True), (-1, False), (1.5, False), ("15", False), (None, False)]
)
def test_a_wait_from_the_input_is_a_whole_number(seconds: object, *, waits: bool) -> None:
    world = World(chain(Wait={"Type": "Wait", "SecondsPath": "$.s", "End": True})).start({"s": seconds}).run(20)
    assert world.outcome[:2] == (("SUCCEEDED", None) if waits else ("FAILED", "States.Runtime"))


def test_a_choice_compares_text_with_text_only() -> None:
    rules = [{"Variable": "$.v", "StringEquals": value, "Next": "Yes"} for value in ("1", "true", "x")]
    machine = chain(Which={"Type": "Choice", "Choices": rules, "Default": "No"}, Yes={"Type": "Succeed"}, No=FAIL)
    found = {value: World(machine).start({"v": value}).run().end["status"] for value in ("x", 1, None, "y")}
    assert found == {"x": "SUCCEEDED", 1: "FAILED", None: "FAILED", "y": "FAILED"}
    assert World(machine).start({}).run().end["error"] == "States.Runtime"


def test_the_branches_outputs_come_in_the_branches_order() -> None:
    both = parallel(
        chain(Slow={"Type": "Wait", "Seconds": 9, "Next": "A"}, A={**CALL, "Parameters": {"x": "a"}, "End": True}),
        chain(B={**CALL, "Parameters": {"x": "b"}, "End": True}),
        ResultSelector={"first.$": "$[0]", "second.$": "$[1]"},
    )
    world = World(chain(Both=both), answer=lambda call: call.tell(Done(call.parameters["x"]))).start().run()
    assert json.loads(world.end["output"]) == {"first": "a", "second": "b"}


def test_a_branch_that_succeeds_stops_nobody() -> None:
    world = World(chain(Both=parallel(chain(Job={**JOB, "End": True}), chain(Done={"Type": "Succeed"})))).start()
    world.run(30)
    assert not world.calls[0].cancelled
    world.calls[0].tell(Done({}))
    assert world.run().end["status"] == "SUCCEEDED"


def test_a_branch_that_fails_stops_the_others_and_is_caught_under_its_name() -> None:
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
