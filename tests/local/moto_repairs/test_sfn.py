import threading
from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from antlr4 import InputStream
from moto.stepfunctions.models import StateMachine
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import (
    ErrorEqualsDecl,
)
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import ProgramRunning, ProgramStopped
from moto.stepfunctions.parser.asl.parse import asl_parser
from moto.stepfunctions.parser.models import StepFunctionsParserBackend

from longhaul.local.credentials import ADMINISTRATOR
from longhaul.local.moto_repairs import sfn as sfn_repairs
from tests.local.support import Moto, branch, eventually, mends


def test_client_of_a_service_is_made_once(
    moto: Moto, monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
    if repaired:
        sfn_repairs.clients(moto.patches, moto.endpoint, lambda _: ADMINISTRATOR)
    made: list[str] = []
    stock_client: Any = boto3.client

    def client(service_name: str, **kwargs: Any) -> Any:
        made.append(service_name)
        return stock_client(service_name, **kwargs)

    monkeypatch.setattr(boto3, "client", client)
    make: Any = vars(lambda_eval_utils)["boto_client_for"]

    clients = [make(region="us-east-1", service="lambda") for _ in range(3)]

    assert len(made) == (1 if repaired else 3)
    assert clients[0].meta.endpoint_url == (
        moto.endpoint if repaired else moto.endpoint.replace("127.0.0.1", "localhost")
    )


@mends(sfn_repairs.errors)
@pytest.mark.parametrize(
    ("declared", "raised", "on_stock", "on_aws"),
    [
        ("States.ALL", "States.Timeout", True, True),
        ("States.ALL", "Stalled", True, True),
        ("States.ALL", "States.Runtime", True, False),
        ("States.ALL", "States.DataLimitExceeded", True, False),
        ("States.TaskFailed", "Stalled", True, True),
        ("States.TaskFailed", "States.Timeout", False, False),
        ("States.TaskFailed", "States.BranchFailed", False, True),
        ("Stalled", "Stalled", True, True),
        ("Stalled", "Cancelled", False, False),
    ],
)
def test_error_name_matches_the_errors_that_aws_matches(
    declared: str, raised: str, *, on_stock: bool, on_aws: bool, repaired: bool
) -> None:
    env: Any = SimpleNamespace(stack=[sfn_repairs.error_of_branch(raised)])

    ErrorEqualsDecl([sfn_repairs.error_of_branch(declared)])._eval_body(env)

    assert env.stack == [on_aws if repaired else on_stock]


def environment() -> Any:
    """A running environment."""
    make: Any = Environment
    made = make(
        aws_execution_details=None,
        execution_type="STANDARD",
        context={"Execution": {"Input": {}}, "StateMachine": {}},
        event_history_context=None,
        cloud_watch_logging_session=None,
        activity_store={},
    )
    made._program_state = ProgramRunning()
    return made


@mends(sfn_repairs.interrupts)
def test_after_a_stop_a_wait_ends_at_once_and_an_error_changes_nothing(*, repaired: bool) -> None:
    env = environment()

    env.set_stop(None, None, None)

    assert env.program_state_event.wait(0.05) is repaired
    env.set_error({"error": "States.Runtime"})

    assert isinstance(env.program_state(), ProgramStopped) is repaired


@mends(sfn_repairs.interrupts)
def test_stop_interrupts_the_pause_before_a_retry(
    machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=slept.append))
    slow_retry = {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 600,
        "JitterStrategy": "NONE",
        "MaxAttempts": 1,
    }
    both = {
        "Type": "Parallel",
        "Branches": [branch(Fails={"Type": "Fail", "Error": "E"})],
        "Retry": [slow_retry],
        "End": True,
    }
    running = machine(Both=both)
    execution = running.start()
    if not repaired:
        assert eventually(lambda: slept, "the pause, which no stop ends") == [600]
        return

    # Wait for the branch: a stop before its start needs another repair.
    eventually(lambda: "FailStateEntered" in running.events(execution), "the branch to fail")
    running.client.stop_execution(executionArn=execution)
    running.end_of(execution)

    assert 600 not in slept


def test_callback_on_a_set_latch_comes_at_once() -> None:
    latch = sfn_repairs.Latch()
    heard: list[str] = []
    latch.on_set(lambda: heard.append("before"))
    latch.set()
    latch.on_set(lambda: heard.append("after"))

    assert heard == ["before", "after"]


@mends(sfn_repairs.parse_once)
def test_machine_is_parsed_once_for_all_its_executions(
    moto: Moto, machine: Callable[..., Any], *, repaired: bool
) -> None:
    stream = Mock(side_effect=InputStream)
    moto.patches.replace(asl_parser, "InputStream", stream)
    passing = machine(Pass={"Type": "Pass", "End": True})

    for name in ("a", "b", "c"):
        assert passing.end_of(passing.start(name=name))["status"] == "SUCCEEDED"

    assert (stream.call_count == 1) is repaired


def test_executions_of_one_parsed_machine_count_their_own_retries(
    moto: Moto, machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=lambda _seconds: None))
    sfn_repairs.parse_once(moto.patches)
    retry = {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 1,
        "MaxAttempts": 1,
        "BackoffRate": 1,
    }
    failing = {
        "Type": "Parallel",
        "Branches": [branch(Fails={"Type": "Fail", "Error": "E"})],
        "Retry": [retry],
        "End": True,
    }
    twice = machine(Failing=failing)
    executions = [twice.start(name=name) for name in ("a", "b")]

    assert [twice.end_of(execution)["status"] for execution in executions] == ["FAILED", "FAILED"]

    for execution in executions:
        assert twice.events(execution).count("ParallelStateStarted") == 2


WAIT = {"Type": "Wait", "Seconds": 600, "End": True}


@mends(sfn_repairs.start_stop)
def test_two_starts_at_once_are_one_execution(
    machine: Callable[..., Any], race: Any, *, repaired: bool
) -> None:
    # Stock moto may lose the stop below, and its two starts are together.
    waiting = machine(Wait={"Type": "Wait", "Seconds": 2 if repaired else 0, "End": True})
    look = "_handle_name_input_idempotency"
    assert race(StateMachine, look, lambda _: waiting.start(name="one")) == ["ok", "ok"]

    executions = waiting.client.list_executions(stateMachineArn=waiting.arn)["executions"]
    for execution in executions:
        waiting.client.stop_execution(executionArn=execution["executionArn"])

    assert len(executions) == (1 if repaired else 2)


@mends(sfn_repairs.interrupts, sfn_repairs.start_stop)
def test_stop_takes_effect_at_once_and_keeps_error_and_cause(
    machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
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
        assert described | {"status": "ABORTED", "error": "Enough", "cause": "of it"} == described
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


BOTH = {"Type": "Parallel", "Branches": [branch(A=WAIT), branch(B=WAIT)], "End": True}


@mends(sfn_repairs.threads)
def test_execution_of_two_branches_takes_four_threads(
    moto: Moto, machine: Callable[..., Any], *, repaired: bool
) -> None:
    sfn_repairs.interrupts(moto.patches)
    running = machine(Both=BOTH)
    before = set(threading.enumerate())

    execution = running.start()
    eventually(
        lambda: running.events(execution).count("WaitStateEntered") == 2, "both branches wait"
    )
    taken = [
        thread.name
        for thread in set(threading.enumerate()) - before
        if "process_request" not in thread.name
    ]
    running.client.stop_execution(executionArn=execution)
    eventually(lambda: running.status(execution) == "ABORTED", "the execution ends")

    # One each for the execution, its Parallel state and two branches. Stock moto adds one for the
    # machine and one for each branch.
    assert len(taken) == (4 if repaired else 7)
