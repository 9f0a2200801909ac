"""What ECS tells a task about itself."""

import json
import os
import urllib.request
from dataclasses import dataclass

import psutil

from longhaul.memory import heap_mib

METADATA_VARIABLE = "ECS_CONTAINER_METADATA_URI_V4"
_TIMEOUT_S = 10
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Resources:
    cores: int
    memory_mib: int

    @property
    def heap_mib(self) -> int:
        """Memory of the JVM's heap; the rest is left for everything else in the task."""
        return heap_mib(self.memory_mib)


@dataclass(frozen=True)
class Task:
    arn: str
    resources: Resources


def this_task() -> Task:
    """This task, as the ECS metadata endpoint describes it.

    Raises:
        RuntimeError: the process does not run under ECS.
    """
    endpoint = os.environ.get(METADATA_VARIABLE)
    if not endpoint:
        raise RuntimeError(
            f"{METADATA_VARIABLE} is not set: the runner is started by ECS (or by `longhaul up`)"
        )
    with urllib.request.urlopen(f"{endpoint}/task", timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the agent's own link-local http address
        metadata = json.load(answer)
    limits = metadata.get("Limits") or {}
    return Task(metadata["TaskARN"], resources(limits.get("CPU"), limits.get("Memory")))


def resources(cpu_limit: float | None, memory_limit_mib: int | None) -> Resources:
    """What the limits (vCPU, MiB) leave on this machine.

    Without limits: all of its cores, and a quarter of its memory.
    """
    cores = os.cpu_count() or 1
    memory_mib = psutil.virtual_memory().total // _MIB
    return Resources(
        cores=max(1, min(cores, round(cpu_limit))) if cpu_limit else cores,
        memory_mib=min(memory_mib, memory_limit_mib) if memory_limit_mib else memory_mib // 4,
    )
