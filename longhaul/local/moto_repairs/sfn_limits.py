"""StartExecution refuses names and inputs that Step Functions does not take.

AWS: the name has 1 to 80 characters without whitespace, brackets, wildcards and some others. The
input is JSON of at most 256 KiB.

Stock moto: with its interpreter switched on, takes any name and any size, and fails with a 500 on
an input that is no JSON.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

import json
import re
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.stepfunctions.parser.models import StepFunctionsParserBackend

from longhaul.local.moto_repairs.patching import Patches

MAX_INPUT_BYTES = 262_144
MAX_NAME = 80
# https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
_NOT_IN_A_NAME = re.compile(r"""[\s<>{}\[\]?*"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]""")


def apply(patches: Patches) -> None:
    stock_start = StepFunctionsParserBackend.start_execution

    def start_execution(
        backend: Any,
        state_machine_arn: str,
        name: Any = None,
        execution_input: Any = None,
        **kwargs: Any,
    ) -> Any:
        if name is not None:
            if not 1 <= len(name) <= MAX_NAME:
                raise JsonRESTError(
                    "ValidationException", f"The name has {len(name)} characters, not 1 to 80."
                )
            if _NOT_IN_A_NAME.search(name):
                raise JsonRESTError("InvalidName", f"Invalid Name: '{name}'")
        if execution_input is not None:
            _refuse_input(execution_input)
        return stock_start(backend, state_machine_arn, name, execution_input, **kwargs)

    patches.replace(StepFunctionsParserBackend, "start_execution", start_execution)


def _refuse_input(text: str) -> None:
    if len(text.encode()) > MAX_INPUT_BYTES:
        raise JsonRESTError(
            "ValidationException", f"The input is longer than {MAX_INPUT_BYTES} bytes."
        )
    try:
        json.loads(text)
    except ValueError as error:
        raise JsonRESTError(
            "InvalidExecutionInput", f"Invalid State Machine Input: {error}"
        ) from error
