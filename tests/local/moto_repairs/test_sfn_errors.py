from types import SimpleNamespace
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import (
    ErrorEqualsDecl,
)

from longhaul.local.moto_repairs import sfn as sfn_repairs
from tests.local.support import Moto


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
        sfn_repairs.errors(moto.patches)
    env: Any = SimpleNamespace(stack=[sfn_repairs.error_of_branch(raised)])

    ErrorEqualsDecl([sfn_repairs.error_of_branch(declared)])._eval_body(env)

    assert env.stack == [on_aws if repaired else on_stock]
