"""The named sizes of jobs, and what Fargate sells. Imports no CDK."""

from collections.abc import Mapping, Sequence

from pydantic import Field, model_validator

from longhaul.core.settings import Model, SizeName
from longhaul.engines.aws_lambda.ends import MIB_PER_VCPU

FARGATE_MEMORY_MIB: Mapping[int, Sequence[int]] = {
    256: (512, 1024, 2048),
    512: range(1024, 4096 + 1, 1024),
    1024: range(2048, 8192 + 1, 1024),
    2048: range(4096, 16_384 + 1, 1024),
    4096: range(8192, 30_720 + 1, 1024),
    8192: range(16_384, 61_440 + 1, 4096),
    16_384: range(32_768, 122_880 + 1, 8192),
    32_768: (61_440, 122_880, 249_856),
}
"""CPU units (1024 = one vCPU) to the memory in MiB that Fargate sells with them.

Source: "Amazon ECS task definition parameters for Fargate".
"""

FARGATE_FREE_DISK_GIB = 20
"""Every Fargate task has this disk.

A task definition may ask for 21 to 200 GiB instead; Fargate refuses an explicit 20.
"""


class Size(Model):
    """What one Fargate task of this size gets."""

    # 1024 units are one vCPU; what Fargate sells.
    cpu: int
    # What Fargate sells with those units.
    memory_mib: int
    # For inputs, shuffle and output of one job.
    disk_gib: int = Field(default=FARGATE_FREE_DISK_GIB, ge=FARGATE_FREE_DISK_GIB, le=200)

    @model_validator(mode="after")
    def _sold_by_fargate(self) -> "Size":
        memory = FARGATE_MEMORY_MIB.get(self.cpu, ())
        if self.memory_mib not in memory:
            what = f"with cpu {self.cpu}" if memory else "as cpu"
            allowed = ", ".join(map(str, memory or FARGATE_MEMORY_MIB))
            raise ValueError(f"is not sold by Fargate; allowed {what}: {allowed}")
        return self


class TinySize(Model):
    """The Lambda function that runs jobs of the size `tiny`."""

    # Lambda gives one vCPU with each 1,769 MiB. A new account may have a limit of 3,008.
    memory_mib: int = Field(default=3008, ge=2048, le=10_240)
    # The function's /tmp: inputs, shuffle and output of one job.
    disk_gib: int = Field(default=8, ge=1, le=10)

    @property
    def cpu(self) -> int:
        """CPU units, of which 1024 are one vCPU."""
        return self.memory_mib * 1024 // MIB_PER_VCPU


class Sizes(Model):
    """One task definition each. An attempt that ran out of memory is retried in the next size."""

    # Jobs of seconds and minutes, on Lambda ({} will do). None: the template has no such function.
    tiny: TinySize | None = None
    # 1 vCPU, 4 GiB, 30 GiB of disk.
    small: Size = Size(cpu=1024, memory_mib=4096, disk_gib=30)
    # 4 vCPU, 16 GiB, 60 GiB of disk.
    medium: Size = Size(cpu=4096, memory_mib=16_384, disk_gib=60)
    # 8 vCPU, 32 GiB, 120 GiB of disk.
    large: Size = Size(cpu=8192, memory_mib=32_768, disk_gib=120)
    # 16 vCPU, 96 GiB, 200 GiB of disk.
    xlarge: Size = Size(cpu=16_384, memory_mib=98_304, disk_gib=200)

    def by_name(self) -> dict[SizeName, Size]:
        """The sizes of Fargate's tasks, smallest first."""
        return {
            "small": self.small,
            "medium": self.medium,
            "large": self.large,
            "xlarge": self.xlarge,
        }

    def every(self) -> dict[SizeName, Size | TinySize]:
        """The sizes of all jobs."""
        return {**self.by_name(), **({"tiny": self.tiny} if self.tiny else {})}
