"""Arguments and responses of the fakes, held against botocore's own models of the services.

What botocore would refuse to send is refused here too (ParamValidationError), and a response that
no real service could give fails the test. It costs some tens of microseconds a call: for the
contract and handler tests, not for worlds.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import ParamValidationError
from botocore.validate import ParamValidator

from simulation.aws.service import Answer, Call, Proceed


def checked(call: Call, proceed: Proceed) -> Answer:
    """A gate's `around`."""
    arguments, answer_shape = _shapes(call.service, call.operation)
    report = ParamValidator().validate(_as_sent(call.arguments), arguments)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())
    answer = proceed()
    if answer_shape is None:
        if answer != {}:
            raise AssertionError(f"{call.operation} returns nothing, not {answer}")
        return answer
    report = ParamValidator().validate(answer, answer_shape)
    # SQS leaves out empty members, also those that the model calls required.
    wrong = [
        line
        for line in report.generate_report().splitlines()
        if not line.startswith("Missing required parameter")
    ]
    if wrong:
        raise AssertionError(f"{call.operation} never returns this: {wrong}")
    return answer


def _as_sent(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """boto3 makes a text of what a copy's source is, before it looks at the arguments."""
    match arguments.get("CopySource"):
        case {"Bucket": bucket, "Key": key}:
            return {**arguments, "CopySource": f"{bucket}/{key}"}
    return arguments


@cache
def _shapes(service: str, operation: str) -> tuple[Any, Any]:
    model = _model(service).operation_model(operation)
    return model.input_shape, model.output_shape


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)
