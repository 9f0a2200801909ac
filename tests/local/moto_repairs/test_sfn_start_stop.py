from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import pytest
from moto.stepfunctions.models import StateMachine
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.models import StepFunctionsParserBackend

from longhaul.local.moto_repairs import sfn as sfn_repairs
from tests.local.support import Moto

WAIT = {"Type": "Wait", "Seconds": 600, "End": True}


def test_two_starts_at_once_are_one_execution(
    moto: Moto, machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
    if repaired:
        sfn_repairs.start_stop(moto.patches)
    both_looked = Barrier(2)
    stock_look = StateMachine._handle_name_input_idempotency

    def look(self: Any, *args: Any) -> Any:
        found = stock_look(self, *args)
        if not repaired:
            both_looked.wait(30)
        return found

    monkeypatch.setattr(StateMachine, "_handle_name_input_idempotency", look)
    # Stock moto may lose the stop below, and the barrier keeps its two starts together.
    waiting = machine(Wait={"Type": "Wait", "Seconds": 2 if repaired else 0, "End": True})
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: waiting.start(name="one"), range(2)))

    executions = waiting.client.list_executions(stateMachineArn=waiting.arn)["executions"]
    for execution in executions:
        waiting.client.stop_execution(executionArn=execution["executionArn"])

    assert len(executions) == (1 if repaired else 2)


def test_stop_takes_effect_at_once_and_keeps_error_and_cause(
    moto: Moto, machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
    if repaired:
        sfn_repairs.interrupts(moto.patches)
        sfn_repairs.start_stop(moto.patches)
    invoked, may_end = Event(), Event()

    def slow_function(*_args: Any, **_kwargs: Any) -> Any:
        invoked.set()
        may_end.wait(10)
        return {"Payload": {}, "StatusCode": 200}

    monkeypatch.setattr(lambda_eval_utils, "_invoke_lambda_function", slow_function)
    call = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": "f"},
        "End": True,
    }
    calling = machine(Call=call)
    execution = calling.start()
    assert invoked.wait(10)

    calling.client.stop_execution(executionArn=execution, error="Enough", cause="of it")

    described = calling.describe(execution)
    may_end.set()
    if repaired:
        assert (described["status"], described["error"], described["cause"]) == (
            "ABORTED",
            "Enough",
            "of it",
        )
        assert calling.describe(execution)["stopDate"] == described["stopDate"]
    else:
        assert described["status"] == "RUNNING"
        calling.end_of(execution)


def test_stop_just_after_the_start_is_not_lost(moto: Moto, machine: Callable[..., Any]) -> None:
    sfn_repairs.interrupts(moto.patches)
    sfn_repairs.threads(moto.patches)
    statuses: list[str] = []
    sfn_repairs.start_stop(moto.patches, lambda execution: statuses.append(execution.status))
    start_execution = StepFunctionsParserBackend.start_execution

    def stopped_at_once(backend: Any, *args: Any, **kwargs: Any) -> Any:
        execution: Any = start_execution(backend, *args, **kwargs)
        execution.stop(None, None, None)
        return execution

    # Undone before the repair is. `monkeypatch`, undone later, would leave the repair in moto.
    moto.patches.replace(StepFunctionsParserBackend, "start_execution", stopped_at_once)
    waiting = machine(Wait=WAIT)

    assert waiting.describe(waiting.start())["status"] == "ABORTED"
    assert statuses == ["RUNNING", "ABORTED"]
