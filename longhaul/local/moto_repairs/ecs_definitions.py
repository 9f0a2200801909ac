"""A task definition of a stack keeps its CPU and its roles.

AWS: tasks get the `Cpu` of their AWS::ECS::TaskDefinition, and read it in their metadata. They act
as its `TaskRoleArn`.

Stock moto: CloudFormation passes on the memory and drops the CPU and the roles.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.ecs.models import TaskDefinition

from longhaul.local.moto_repairs.patching import Patches

_ROLES = {"TaskRoleArn": "task_role_arn", "ExecutionRoleArn": "execution_role_arn"}


def apply(patches: Patches) -> None:
    stock_create = TaskDefinition.create_from_cloudformation_json

    def create(
        _cls: type, resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any
    ) -> Any:
        made: Any = stock_create(resource_name, cloudformation_json, *args, **kwargs)
        properties = cloudformation_json["Properties"]
        made.cpu = properties.get("Cpu")
        for name, role in _ROLES.items():
            if name in properties:
                setattr(made, role, properties[name])
        return made

    patches.replace(TaskDefinition, "create_from_cloudformation_json", classmethod(create))
