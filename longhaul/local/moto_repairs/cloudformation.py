"""Repairs of CloudFormation."""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

import json
from typing import Any

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import ValidationError
from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket, s3_backends
from moto.sqs.models import sqs_backends

from longhaul.local.moto_repairs.patching import Made, Patches


def policies(patches: Patches) -> None:
    """A queue or bucket has the policy that a template gives it.

    AWS: a policy of a template is that of each resource that it names. A Deny in a bucket's policy
    holds where its conditions do.

    Stock moto: skips these resources of a template. Of a bucket's policy it heeds the statements
    for everybody, without their conditions: one that denies requests without TLS denies all.
    """
    stock_permission = FakeBucket.get_permission

    @patches.replacing(FakeBucket, "get_permission")
    def get_permission(bucket: Any, action: str, resource: str) -> Any:
        said = stock_permission(bucket, action, resource)
        return PermissionResult.NEUTRAL if said == PermissionResult.DENIED else said

    def make(name: str, properties: dict[str, Any], account: str, region: str) -> Made:
        document = json.dumps(properties["PolicyDocument"])
        for url in properties.get("Queues", ()):
            sqs_backends[account][region].get_queue(url.rpartition("/")[2]).policy = document
        if bucket := properties.get("Bucket"):
            s3_backends[account]["aws"].put_bucket_policy(bucket, document.encode())
        return Made("policy", name)

    for kind in ("S3::BucketPolicy", "SQS::QueuePolicy"):
        patches.add_type(f"AWS::{kind}", make)


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
        "AWS::SNS::TopicPolicy",
    }
)


def unsupported(patches: Patches) -> None:
    """A resource of an unknown type fails the deployment.

    AWS: makes every resource of a template.

    Stock moto: skips a resource of an unknown type with a warning, so a part of the template is
    silently missing. Here only the types in `SKIPPED` are skipped, because they would do nothing on
    this machine. Any other unknown type fails the deployment with its name.
    """
    stock_parse = parsing.parse_resource

    @patches.replacing(parsing, "parse_resource")
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
