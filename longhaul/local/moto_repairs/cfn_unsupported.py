"""A resource of an unknown type fails the deployment.

AWS: makes every resource of a template.

Stock moto: skips a resource of an unknown type with a warning, so a part of the template is
silently missing. Here only the types in `SKIPPED` are skipped, because they would do nothing on
this machine. Any other unknown type fails the deployment with its name.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import ValidationError

from longhaul.local.moto_repairs.patching import Patches

# Monitoring, and permissions that moto does not check.
SKIPPED = frozenset(
    {
        "AWS::CDK::Metadata",
        "AWS::CloudWatch::Alarm",
        "AWS::CloudWatch::CompositeAlarm",
        "AWS::CloudWatch::Dashboard",
        "AWS::EC2::FlowLog",
        "AWS::Events::EventBusPolicy",
        "AWS::Lambda::EventInvokeConfig",
        "AWS::Lambda::LayerVersionPermission",
        "AWS::Logs::MetricFilter",
        "AWS::Logs::QueryDefinition",
        "AWS::Logs::ResourcePolicy",
    }
)


def apply(patches: Patches) -> None:
    stock_parse = parsing.parse_resource

    def parse_resource(resource_json: dict[str, Any], resources_map: Any) -> Any:
        resource_type = resource_json["Type"]
        if resource_type in SKIPPED:
            return None
        if parsing.resource_class_from_type(resource_type) is not None:
            return stock_parse(resource_json, resources_map)
        raise ValidationError(
            message=f"{resource_type} is not made by the embedded AWS: "
            f"if nothing local depends on it, add it to SKIPPED in {__name__}"
        )

    patches.replace(parsing, "parse_resource", parse_resource)
