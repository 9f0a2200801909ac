"""A function of a stack can be a container image.

AWS: a function with `PackageType: Image` runs the command of its `ImageConfig` in the image. Its
log goes to the group that `LoggingConfig` names.

Stock moto: CloudFormation drops all three, so the function is a zip file without code.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.awslambda.models import ImageConfig, LambdaFunction

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_create = LambdaFunction.create_from_cloudformation_json

    def create(
        _cls: type, resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any
    ) -> Any:
        made: Any = stock_create(resource_name, cloudformation_json, *args, **kwargs)
        properties = cloudformation_json["Properties"]
        made.package_type = properties.get("PackageType", "Zip")
        made.image_config = ImageConfig(properties.get("ImageConfig", {}))
        made.log_group = properties.get("LoggingConfig", {}).get("LogGroup")
        return made

    patches.replace(LambdaFunction, "create_from_cloudformation_json", classmethod(create))
