"""Functions run.

AWS: Invoke runs the function's code in its runtime. An error of the function is a response with
`FunctionError: Unhandled`. With invocation type `Event` the response is an empty 202, and the
service tries up to three times in all.

Stock moto: runs functions in Docker containers, or echoes the input.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.awslambda.models import LambdaFunction

from longhaul.local.lambda_driver import Invoker
from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches, invoker: Invoker) -> None:
    def invoke(function: Any, body: Any, request_headers: Any, response_headers: Any) -> bytes:
        payload = body if isinstance(body, bytes) else (body or "{}").encode()
        invocation_type = request_headers.get("X-Amz-Invocation-Type", "RequestResponse")
        if invocation_type == "DryRun":
            return b""
        if invocation_type == "Event":
            invoker.invoke_later(function, payload)
            return b""
        response, failed = invoker.invoke(function, payload)
        if failed:
            response_headers["x-amz-function-error"] = "Unhandled"
        return response

    patches.replace(LambdaFunction, "invoke", invoke)
