"""The settings of the engine `emr-serverless`. Imports no CDK."""

from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field

from longhaul.config.errors import Case
from longhaul.config.sizes import Sizes
from longhaul.core.settings import Model

CPU: Final = (1024, 2048, 4096, 8192, 16_384)
"""CPU units that EMR Serverless sells. Memory and disk are sold with them as on Fargate."""


class EmrSettings(Model):
    """The engine `emr-serverless`: an application that costs nothing while no job runs on it."""

    # Jobs see the PySpark of this release, and its Python must be the layer's
    # (`longhaul.cdk.layer.PYTHON_VERSION`).
    release_label: str = Field(default="emr-spark-8.0.0", pattern=r"^emr-[a-z0-9.-]+$")
    # An application that has stopped costs nothing, and takes minutes to start.
    idle_stop_minutes: int = Field(default=15, ge=1, le=10_080)
    # The limit of what the engine can cost: all jobs together, drivers included. A new account has
    # a quota of 16 vCPU.
    max_vcpu: int = Field(default=64, ge=2, le=4_000)
    # As `max_vcpu`.
    max_memory_gib: int = Field(default=512, ge=4, le=32_000)
    # The limit of one job, so that it leaves capacity for others.
    max_executors: int = Field(default=8, ge=1, le=1_000)
    # Replaces the hidden prefix of the data bucket by the driver's scratch folder. Works only where
    # executors share the driver's disk.
    work_area: Literal["file:"] | None = None

    def cases(self, sizes: Sizes, *, file_paths: bool) -> Iterator[Case]:
        """Jobs of every size can run."""
        yield Case(
            ("emr_serverless", "work_area"),
            self.work_area and not file_paths,
            "emr_serverless.work_area is a disk, which executors do not share: it needs "
            "allow_file_paths",
        )
        for name, size in sizes.by_name().items():
            yield Case(
                ("sizes", name),
                size.cpu not in CPU,
                f"sizes.{name}: cpu {size.cpu} is not sold by EMR Serverless; with emr_serverless "
                f"allowed: {', '.join(map(str, CPU))}",
            )
            # A driver and one executor: with less, a job of that size would wait forever.
            cpu, memory_mib = self.max_vcpu * 1024, self.max_memory_gib * 1024
            yield Case(
                ("emr_serverless",),
                2 * size.cpu > cpu or 2 * size.memory_mib > memory_mib,
                f"emr_serverless: max_vcpu {self.max_vcpu} and max_memory_gib "
                f"{self.max_memory_gib} do not hold a driver and an executor of size {name} "
                f"({size.cpu // 1024} vCPU, {size.memory_mib // 1024} GiB each)",
            )
