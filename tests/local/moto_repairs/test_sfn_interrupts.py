from collections.abc import Callable
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import ProgramRunning, ProgramStopped

from local.moto_repairs import sfn_interrupts
from tests.local.support import Moto, branch, eventually


def environment() -> Any:
    """An environment that runs."""
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


def test_wait_that_begins_just_after_the_stop_ends_at_once(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        sfn_interrupts.apply(moto.patches)
    env = environment()

    env.set_stop(None, None, None)

    assert env.program_state_event.wait(0.05) is repaired


def test_error_while_unwinding_does_not_change_how_it_ended(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        sfn_interrupts.apply(moto.patches)
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
        sfn_interrupts.apply(moto.patches)
    slow_retry = {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 600, "JitterStrategy": "NONE", "MaxAttempts": 1}
    both = {
        "Type": "Parallel",
        "Branches": [branch(Fails={"Type": "Fail", "Error": "E"})],
        "Retry": [slow_retry],
        "End": True,
    }
    running = machine(Both=both)
    execution = running.start()
    if not repaired:
        assert eventually(lambda: slept, "the pause, in which nothing is noticed") == [600]
        return

    # Once the branch runs: a program that is stopped before it began is another repair's business.
    eventually(lambda: "FailStateEntered" in running.events(execution), "the branch to fail")
    running.client.stop_execution(executionArn=execution)
    running.end_of(execution)

    assert 600 not in slept


def test_callback_on_an_ended_environment_comes_at_once() -> None:
    latch = sfn_interrupts.Latch()
    heard: list[str] = []
    latch.on_set(lambda: heard.append("before"))
    latch.set()
    latch.on_set(lambda: heard.append("after"))

    assert heard == ["before", "after"]


def test_latch_wakes_who_waits_in_a_thread() -> None:
    latch = sfn_interrupts.Latch()
    waiting = Thread(target=latch.wait)
    waiting.start()
    latch.set()
    waiting.join(5)

    assert not waiting.is_alive()
