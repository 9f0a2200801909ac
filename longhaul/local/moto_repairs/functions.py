"""Repairs of Lambda."""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from collections.abc import Mapping
from typing import Any

from moto.awslambda.models import ImageConfig, LambdaFunction

from longhaul.local.lambda_driver import LambdaDriver
from longhaul.local.moto_repairs.patching import Patches


def images(patches: Patches) -> None:
    """A function of a stack can be a container image.

    AWS: a function with `PackageType: Image` runs the command of its `ImageConfig` in the image.
    Its log goes to the group that `LoggingConfig` names.

    Stock moto: CloudFormation drops all three, so the function is a zip file without code.
    """

    def change(made: Any, properties: Mapping[str, Any]) -> None:
        made.package_type = properties.get("PackageType", "Zip")
        made.image_config = ImageConfig(properties.get("ImageConfig", {}))
        made.log_group = properties.get("LoggingConfig", {}).get("LogGroup")

    patches.complete(LambdaFunction, change)


def invocation(patches: Patches, invoker: LambdaDriver) -> None:
    """Functions run.

    AWS: Invoke runs the function's code in its runtime. An error of the function is a response with
    `FunctionError: Unhandled`. With invocation type `Event` the response is an empty 202, and the
    service tries up to three times in all.

    Stock moto: runs functions in Docker containers, or echoes the input.
    """

    @patches.replacing(LambdaFunction, "invoke")
    def invoke(function: Any, body: Any, request_headers: Any, response_headers: Any) -> bytes:
        payload = body if isinstance(body, bytes) else (body or "{}").encode()
        invocation_type = request_headers.get("X-Amz-Invocation-Type", "RequestResponse")
        if invocation_type == "Event":
            invoker.invoke_later(function, payload)
            return b""
        response, failed = invoker.invoke(function, payload)
        if failed:
            response_headers["x-amz-function-error"] = "Unhandled"
        return response
