"""Errors keep their names, and match the Catch and Retry that AWS matches.

AWS: an error in a branch of a Parallel state fails that state under the error's own name,
`States.*` included, and the state's Catch and Retry see it. `States.ALL` matches neither
`States.Runtime` nor `States.DataLimitExceeded`. `States.TaskFailed` matches everything but these
two and `States.Timeout`.

Stock moto: a `States.*` error in a branch ends the execution with `States.Runtime` ("must not begin
with States."), and `States.ALL` matches every error.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import (
    CustomErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import (
    ErrorEqualsDecl,
)
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
    StatesErrorName,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_parallel import branches_decl

from longhaul.local.moto_repairs.patching import Patches

NEVER_CAUGHT_BY_ALL = {"States.Runtime", "States.DataLimitExceeded"}


def apply(patches: Patches) -> None:
    patches.replace(branches_decl, "CustomErrorName", error_of_branch)
    patches.replace(ErrorEqualsDecl, "_eval_body", _matches)


def error_of_branch(error_name: str | None) -> Any:
    """The error of a Parallel state whose branch failed with this error."""
    if error_name is None or not error_name.startswith("States."):
        return CustomErrorName(error_name)
    try:
        return StatesErrorName.from_name(error_name)
    except ValueError:  # a `States.*` name that moto's grammar does not list
        return _OtherStatesError(error_name)


class _OtherStatesError(ErrorName):
    pass


def _matches(declaration: Any, env: Any) -> None:
    raised = env.stack.pop().error_name
    declared = {name.error_name for name in declaration.error_names}
    env.stack.append(
        raised in declared
        or ("States.ALL" in declared and raised not in NEVER_CAUGHT_BY_ALL)
        or (
            "States.TaskFailed" in declared
            and raised not in NEVER_CAUGHT_BY_ALL | {"States.Timeout"}
        )
    )
