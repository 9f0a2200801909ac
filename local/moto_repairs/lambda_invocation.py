"""Functions run.

AWS: Invoke runs the function's code in its runtime; an error of the function comes back with `FunctionError: Unhandled`; with invocation type `Event` the
answer is an empty 202, and the service tries up to three times in all.

Stock moto: runs functions in Docker containers, or echoes.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any, Protocol

from moto.awslambda.models import LambdaFunction

from local.moto_repairs.patching import Patches


class Invoker(Protocol):
    """What runs functions; `function` is moto's LambdaFunction."""

    def invoke(self, function: Any, payload: bytes) -> tuple[bytes, bool]:
        """Run it and wait. Returns the payload, and whether it describes an error of the function."""

    def invoke_later(self, function: Any, payload: bytes) -> None:
        """Run it without anyone waiting, with the retries of an asynchronous invocation."""


def apply(patches: Patches, invoker: Invoker) -> None:
    def invoke(function: Any, body: Any, request_headers: Any, response_headers: Any) -> bytes:
        payload = body if isinstance(body, bytes) else (body or "{}").encode()
        invocation_type = request_headers.get("X-Amz-Invocation-Type", "RequestResponse")
        if invocation_type == "DryRun":
            return b""
        if invocation_type == "Event":
            invoker.invoke_later(function, payload)
            return b""
        answer, failed = invoker.invoke(function, payload)
        if failed:
            response_headers["x-amz-function-error"] = "Unhandled"
        return answer

    patches.replace(LambdaFunction, "invoke", invoke)
