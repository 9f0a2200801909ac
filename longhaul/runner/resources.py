"""The cores and the memory that a task may use."""

import os
from dataclasses import dataclass
from typing import Final

import psutil

from longhaul.core.memory import heap_mib

_MIB: Final = 1024 * 1024


@dataclass(frozen=True)
class Resources:
    cores: int
    memory_mib: int

    @property
    def heap_mib(self) -> int:
        """Memory of the JVM's heap; the rest is left for everything else in the task."""
        return heap_mib(self.memory_mib)


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
