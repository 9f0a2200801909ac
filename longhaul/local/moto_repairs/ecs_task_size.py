"""A task definition of a stack keeps its CPU.

AWS: tasks get the `Cpu` of their AWS::ECS::TaskDefinition, and read it in their metadata.

Stock moto: CloudFormation passes on the memory and drops the CPU.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.ecs.models import TaskDefinition

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_create = TaskDefinition.create_from_cloudformation_json

    def create(
        _cls: type, resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any
    ) -> Any:
        made: Any = stock_create(resource_name, cloudformation_json, *args, **kwargs)
        made.cpu = cloudformation_json["Properties"].get("Cpu")
        return made

    patches.replace(TaskDefinition, "create_from_cloudformation_json", classmethod(create))
