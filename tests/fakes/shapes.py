"""Arguments and answers of the fakes, held against botocore's own models of the services.

What botocore would refuse to send is refused here too (ParamValidationError), and an answer that no real service could give fails the test. Costs some tens of
microseconds a call: for the contract and handler tests, not for a simulation.
"""

from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import ParamValidationError
from botocore.validate import ParamValidator

from tests.fakes.service import Answer, Call, Proceed


def checked(call: Call, proceed: Proceed) -> Answer:
    """A gate's `around`."""
    arguments, answer_shape = _shapes(call.service, call.operation)
    report = ParamValidator().validate(call.arguments, arguments)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())
    answer = proceed()
    if answer_shape is None:
        assert answer == {}, f"{call.operation} answers nothing, not {answer}"
        return answer
    # Members that the models call required are left out by SQS when they are empty.
    wrong = [error for error in ParamValidator().validate(answer, answer_shape)._errors if "missing" not in error[0]]
    assert not wrong, f"{call.operation} never answers {wrong}"
    return answer


@cache
def _shapes(service: str, operation: str) -> tuple[Any, Any]:
    model = _model(service).operation_model(operation)
    return model.input_shape, model.output_shape


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)
