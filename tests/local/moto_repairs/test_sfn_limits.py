from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.local.moto_repairs import sfn_limits
from tests.local.support import Moto, error_code

MANY = 262_143


@pytest.mark.parametrize(
    ("given", "code", "stock_code"),
    [
        ({"name": "main#a"}, "InvalidName", None),
        ({"name": "a b"}, "InvalidName", None),
        ({"name": "a" * 81}, "ValidationException", None),
        ({"name": "a" * 80}, None, None),
        ({"name": "main-a_1.2"}, None, None),
        ({"input": f'"{"x" * MANY}"'}, "ValidationException", None),
        ({"input": "{"}, "InvalidExecutionInput", ""),
    ],
)
def test_name_or_input_that_step_functions_does_not_take_is_refused(
    moto: Moto,
    machine: Callable[..., Any],
    given: dict[str, str],
    code: str | None,
    stock_code: str | None,
    *,
    repaired: bool,
) -> None:
    if repaired:
        sfn_limits.apply(moto.patches)
    passing = machine(End={"Type": "Succeed"})
    found = None
    try:
        passing.client.start_execution(stateMachineArn=passing.arn, **given)
    except ClientError as error:
        found = error_code(error)
    assert found == (code if repaired else stock_code)
