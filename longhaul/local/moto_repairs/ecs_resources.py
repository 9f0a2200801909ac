"""A Fargate container needs no memory of its own.

AWS: on Fargate, memory is set for the task, and a container's `Memory` is optional.

Stock moto: RunTask adds up the containers' memory and fails when one has none.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from typing import Any

from moto.ecs.models import EC2ContainerServiceBackend

from longhaul.local.moto_repairs.patching import Patches

MEMORY_KEYS = {"memory", "Memory", "memoryReservation", "MemoryReservation"}


def apply(patches: Patches) -> None:
    stock = EC2ContainerServiceBackend._calculate_task_resource_requirements

    def calculate(task_definition: Any) -> Any:
        for container in task_definition.container_definitions:
            if not MEMORY_KEYS & container.keys():
                container["memory"] = 0
        return stock(task_definition)

    patches.replace(
        EC2ContainerServiceBackend, "_calculate_task_resource_requirements", staticmethod(calculate)
    )
