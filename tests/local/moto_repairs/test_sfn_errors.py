from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import (
    ErrorEqualsDecl,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils

from longhaul.local.moto_repairs import sfn_errors
from tests.local.support import Moto, branch

INVOKE = {
    "Type": "Task",
    "Resource": "arn:aws:states:::lambda:invoke",
    "Parameters": {"FunctionName": "f"},
}
# A state that fails with each error, in moto's interpreter as on AWS.
FAILING = {
    "States.Timeout": {**INVOKE, "TimeoutSeconds": 1, "End": True},
    "States.Runtime": {"Type": "Wait", "SecondsPath": "$.why", "End": True},
    "Stalled": {"Type": "Fail", "Error": "Stalled", "CausePath": "$.why"},
}


def parallel(error: str, caught: list[str]) -> dict[str, Any]:
    return {
        "Both": {
            "Type": "Parallel",
            "Branches": [
                branch(Failing=FAILING[error]),
                branch(Waits={"Type": "Wait", "Seconds": 600, "End": True}),
            ],
            "Catch": [{"ErrorEquals": caught, "ResultPath": "$.error", "Next": "Caught"}],
            "Next": "NotCaught",
        },
        "Caught": {"Type": "Pass", "End": True},
        "NotCaught": {"Type": "Fail"},
    }


@pytest.fixture(autouse=True)
def _function_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> Any:
    end = Event()
    monkeypatch.setattr(
        lambda_eval_utils, "_invoke_lambda_function", lambda **_kwargs: end.wait(30)
    )
    yield
    end.set()


def test_states_error_of_a_branch_is_caught_at_the_parallel(
    moto: Moto, machine: Callable[..., Any], *, repaired: bool
) -> None:
    if repaired:
        sfn_errors.apply(moto.patches)

    end = machine(**parallel("States.Timeout", ["States.Timeout"])).run(why="because")

    assert (end["status"] == "SUCCEEDED") is repaired


def test_custom_error_of_a_branch_is_caught_under_its_name_with_its_cause(
    moto: Moto, machine: Callable[..., Any]
) -> None:
    sfn_errors.apply(moto.patches)

    end = machine(**parallel("Stalled", ["Cancelled", "Stalled", "Lost"])).run(why="no progress")

    assert '"error": {"Error": "Stalled", "Cause": "no progress"}' in end["output"]


def test_uncaught_error_fails_the_execution_under_its_name(
    moto: Moto, machine: Callable[..., Any]
) -> None:
    sfn_errors.apply(moto.patches)

    end = machine(**parallel("Stalled", ["Lost"])).run(why="because")

    assert (end["status"], end["error"], end["cause"]) == ("FAILED", "Stalled", "because")


def test_runtime_error_of_a_branch_is_not_caught_by_states_all(
    moto: Moto, machine: Callable[..., Any]
) -> None:
    sfn_errors.apply(moto.patches)

    end = machine(**parallel("States.Runtime", ["States.ALL"])).run(why="not a number")

    assert (end["status"], end["error"]) == ("FAILED", "States.Runtime")


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
    moto: Moto, declared: str, raised: str, *, on_stock: bool, on_aws: bool, repaired: bool
) -> None:
    if repaired:
        sfn_errors.apply(moto.patches)
    env: Any = SimpleNamespace(stack=[sfn_errors.error_of_branch(raised)])

    ErrorEqualsDecl([sfn_errors.error_of_branch(declared)])._eval_body(env)

    assert env.stack == [on_aws if repaired else on_stock]
