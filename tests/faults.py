"""Calls of the fakes that fail, for as long as a block runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from simulation.aws.service import Answer, Call, Gate, Proceed, client_error


@contextmanager
def failing(
    gate: Gate, error: Callable[[Call], BaseException], *operations: str, about: str = ""
) -> Iterator[None]:
    """These operations raise, if their arguments mention `about`."""
    usual = gate.around

    def around(call: Call, proceed: Proceed) -> Answer:
        if call.operation in operations and about in str(call.arguments):
            raise error(call)
        return usual(call, proceed) if usual else proceed()

    gate.around = around
    try:
        yield
    finally:
        gate.around = usual


def denied(call: Call) -> ClientError:
    return client_error("AccessDeniedException", "not authorized", call.operation)
