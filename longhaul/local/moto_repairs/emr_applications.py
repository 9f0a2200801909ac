"""A template can make applications of EMR Serverless.

AWS: `AWS::EMRServerless::Application` makes an application of any release, with the attributes
`Arn` and `ApplicationId`.

Stock moto: CloudFormation does not know the type, and CreateApplication refuses every release but
`emr-6.6.0`.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any, ClassVar

from moto.emrserverless.models import Application, emrserverless_backends
from moto.moto_api._internal import mock_random

from longhaul.local.moto_repairs.patching import Patches, TemplateResource


def apply(patches: Patches) -> None:
    patches.add_types((TemplateApplication.TYPE,), TemplateApplication)


class TemplateApplication(TemplateResource, Application):
    """moto's application, with the log group of its job runs."""

    log_group: str | None = None
    log_prefix: str = ""

    TYPE = "AWS::EMRServerless::Application"
    ATTRIBUTES: ClassVar = {"Arn": "arn", "ApplicationId": "id"}
    REFERENCE = "id"

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
        **_kwargs: Any,
    ) -> "TemplateApplication":
        properties = cloudformation_json["Properties"]
        application = cls(
            name=properties.get("Name", resource_name),
            release_label=properties["ReleaseLabel"],
            application_type=properties["Type"],
            client_token=mock_random.get_random_hex(32),
            account_id=account_id,
            region_name=region_name,
            initial_capacity={},  # type: ignore[arg-type]  # declared as str, used as a map
            maximum_capacity=properties.get("MaximumCapacity", {}),
            tags={},
            auto_start_configuration=properties.get("AutoStartConfiguration", {}),
            auto_stop_configuration=properties.get("AutoStopConfiguration", {}),
            network_configuration=properties.get("NetworkConfiguration"),
        )
        logging = properties.get("MonitoringConfiguration", {}).get(
            "CloudWatchLoggingConfiguration", {}
        )
        application.log_group = logging.get("LogGroupName")
        application.log_prefix = logging.get("LogStreamNamePrefix", "")
        emrserverless_backends[account_id][region_name].applications[application.id] = application
        return application
