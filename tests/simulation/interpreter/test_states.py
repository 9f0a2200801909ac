"""Executions as a whole, transitions and Parallel states, what they hold, and seven days."""

import json
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from longhaul.cdk.definition import SETTLE_RETRY
from longhaul.core.request import MAX_TIMEOUT_S
from simulation.aws.clock import START
from simulation.aws.stepfunctions.asl.limits import (
    MAX_BYTES,
    MAX_EVENTS,
    ExecutionError,
    History,
    crossed,
    sized,
)
from simulation.aws.stepfunctions.client import Execution
from simulation.aws.stepfunctions.integration import Done, Failed
from simulation.aws.template import deployed
from tests.simulation.conformance.scripts import DEFINITION, INPUT
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


EXECUTION = Execution("arn", "machine", "x", "{}", START)


def full_history() -> History:
    """A history with room for one more event, the last."""
    history = History(EXECUTION, [])
    for _ in range(MAX_EVENTS - 1):
        history.write("WaitStateEntered", "Wait")
    return history


def test_last_event_of_a_full_history_is_an_end() -> None:
    history = full_history()

    with pytest.raises(ExecutionError, match="25000"):
        history.write("WaitStateEntered", "Wait")
    history.write_if_room("WaitStateAborted", "Wait")
    assert history.events == 24_999
    history.close("ExecutionSucceeded")
    assert history.events == 25_000


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


def test_crossed_payload_is_a_copy() -> None:
    answer = {"list": [1]}

    received = crossed(answer, "lambda")
    answer["list"].append(2)

    assert received == {"list": [1]}


def test_payload_that_is_not_json_does_not_cross() -> None:
    with pytest.raises(TypeError):
        crossed({1, 2}, "lambda")


LONGEST = {
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

    return World(deployed().definition, answer=answered).start(LONGEST).run(MAX_TIMEOUT_S - 1)


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
