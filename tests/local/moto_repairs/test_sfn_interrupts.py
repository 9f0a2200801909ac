from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import ProgramRunning, ProgramStopped

from longhaul.local.moto_repairs import sfn as sfn_repairs
from tests.local.support import Moto, branch, eventually


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


def test_wait_that_starts_just_after_the_stop_ends_at_once(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        sfn_repairs.interrupts(moto.patches)
    env = environment()

    env.set_stop(None, None, None)

    assert env.program_state_event.wait(0.05) is repaired


def test_error_after_a_stop_does_not_change_the_status(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        sfn_repairs.interrupts(moto.patches)
    env = environment()
    env.set_stop(None, None, None)

    env.set_error({"error": "States.Runtime"})

    assert isinstance(env.program_state(), ProgramStopped) is repaired


def test_stop_interrupts_the_pause_before_a_retry(
    moto: Moto, machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=slept.append))
    if repaired:
        sfn_repairs.interrupts(moto.patches)
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
