"""Executions as a whole: start, stop and end; and the real state machine for seven days."""

import json

import pytest
from pydantic import ValidationError

from longhaul.cdk.definition import SETTLE_RETRY
from simulation.aws.stepfunctions.integration import Done, Failed
from tests.simulation.conformance.scripts import DEFINITION, INPUT
from tests.simulation.interpreter.small_machines import (
    CALL,
    JOB,
    LAMBDA,
    RUN_TASK,
    Call,
    World,
    chain,
    parallel,
)


def test_start_execution_returns_before_the_first_state() -> None:
    world = World(chain(Do={**CALL, "End": True})).start({"a": 1})
    assert world.calls == []
    world.run(1)
    assert [call.parameters for call in world.calls] == [{"In": {"a": 1}}]


def test_pass_state_adds_its_result_to_the_input() -> None:
    world = World(
        chain(
            Add={"Type": "Pass", "Result": "fixed", "ResultPath": "$.b", "Next": "Do"},
            Do={**CALL, "End": True},
        )
    )
    world.start({"a": 1}).run(1)
    assert [call.parameters for call in world.calls] == [{"In": {"a": 1, "b": "fixed"}}]
    assert world.history[1:3] == ["PassStateEntered Add", "PassStateExited Add"]


def test_each_transition_takes_its_time() -> None:
    world = World(
        chain(First={"Type": "Wait", "Seconds": 10, "Next": "Second"}, Second={**CALL, "End": True})
    )
    world.engine.transition_s = lambda: 0.5
    begin = world.aws.clock.now()
    world.start().run(60)
    assert (world.calls[0].at - begin).total_seconds() == 11


def test_stop_ends_all_branches_and_no_event_follows() -> None:
    retried = {**CALL, "Retry": [{**SETTLE_RETRY, "IntervalSeconds": 50}], "End": True}
    both = parallel(
        chain(Job={**JOB, "End": True}),
        chain(Long={"Type": "Wait", "Seconds": 500, "End": True}),
        chain(Do=retried),
    )

    def answer(call: Call) -> None:
        if call.resource == LAMBDA:
            call.tell(Failed("Bad", "very"))

    world = World(chain(Both=both), answer=answer).start().run(0.5)
    calls = len(world.calls)
    world.sfn.stop_execution(executionArn=world.arn, error="Operator", cause="by hand")
    assert [call.cancelled for call in world.calls if call.resource == RUN_TASK] == [True]
    world.run()
    assert len(world.calls) == calls
    assert world.outcome[:3] == ("ABORTED", "Operator", "by hand")
    assert world.history[-5:-1] == [
        "TaskStateAborted Job",
        "WaitStateAborted Long",
        "TaskStateAborted Do",
        "ParallelStateAborted Both",
    ]
    assert world.history[-1] == "ExecutionAborted"


def test_result_after_a_stop_has_no_effect() -> None:
    world = World(chain(Do={**CALL, "End": True})).start().run(1)
    world.sfn.stop_execution(executionArn=world.arn)
    world.calls[0].tell(Done({}))
    assert world.run().end["status"] == "ABORTED"


def test_stop_before_the_first_state_leaves_no_state_in_the_history() -> None:
    world = World(chain(Do={**CALL, "End": True})).start()
    world.sfn.stop_execution(executionArn=world.arn)
    assert world.run().history == ["ExecutionStarted", "ExecutionAborted"]


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
    seven_days = 7 * 86_400

    def answer(call: Call) -> None:
        if call.resource == RUN_TASK:
            world.timeline.after(seven_days - 1, lambda: call.tell(Done({})))
        elif call.parameters["FunctionName"] == "settle":
            call.tell(Done({"Payload": {"outcome": "SUCCEEDED"}}))
        else:
            settled = world.history.count("TaskStateExited Settle")
            call.tell(
                Done(
                    {
                        "Payload": {
                            "next": "end" if settled else "wait",
                            "wait_s": 300,
                            "cause": None,
                        }
                    }
                )
            )

    world = World(DEFINITION, answer=answer)
    world.start({**INPUT, "timeout_s": seven_days}).run()
    assert world.end["status"] == "SUCCEEDED"
    assert 18_000 < len(world.history) < 20_000


def test_machine_is_refused_at_its_first_start() -> None:
    world = World(chain(Do={**CALL, "End": True}))
    later = world.sfn.create_state_machine(
        name="Later", definition=json.dumps(chain(M={"Type": "Map"})), roleArn="r"
    )
    with pytest.raises(ValidationError, match="Map"):
        world.sfn.start_execution(stateMachineArn=later["stateMachineArn"], name="x", input="{}")
