"""What may be set about the engine `emr-serverless`. Imports no CDK, as `infra.settings`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from longhaul.settings import Model, SizeName

if TYPE_CHECKING:
    from infra.settings import Size

# CPU units of its workers. The memory sold with each, and the disk, are Fargate's.
CPU: Final = (1024, 2048, 4096, 8192, 16_384)


class EmrDeployment(Model):
    """The engine `emr-serverless`: an application that costs nothing while no job runs on it."""

    # Jobs see the PySpark of this release, and its Python must be the layer's (`infra.layer.PYTHON_VERSION`).
    release_label: str = Field(default="emr-spark-8.0.0", pattern=r"^emr-[a-z0-9.-]+$")
    idle_stop_minutes: int = Field(default=15, ge=1, le=10_080)
    # Of all jobs together, drivers included: what the engine can cost at most. An account begins with a quota of 16 vCPU.
    max_vcpu: int = Field(default=64, ge=2, le=4_000)
    max_memory_gib: int = Field(default=512, ge=4, le=32_000)
    # Of one job, so that it leaves something to the others.
    max_executors: int = Field(default=8, ge=1, le=1_000)
    # Instead of a hidden prefix of the data bucket: the driver's scratch folder, where executors share its disk.
    work_area: Literal["file:"] | None = None

    def check(self, sizes: Mapping[SizeName, "Size"], *, allow_file_paths: bool) -> None:
        """See whether jobs of every size could run.

        Raises:
            ValueError: one could not; the message says why, and what is allowed.
        """
        if self.work_area is not None and not allow_file_paths:
            raise ValueError(
                "emr_serverless.work_area is a disk, which executors share with nobody unless allow_file_paths says so"
            )
        for name, size in sizes.items():
            if size.cpu not in CPU:
                raise ValueError(
                    f"sizes.{name}: cpu {size.cpu} is not sold by EMR Serverless; with emr_serverless allowed: {', '.join(map(str, CPU))}"
                )
            # A driver and one executor: with less, jobs of that size would wait for ever.
            if 2 * size.cpu > self.max_vcpu * 1024 or 2 * size.memory_mib > self.max_memory_gib * 1024:
                raise ValueError(
                    f"emr_serverless: max_vcpu {self.max_vcpu} and max_memory_gib {self.max_memory_gib} do not hold a driver and an executor of size {name} "
                    f"({size.cpu // 1024} vCPU, {size.memory_mib // 1024} GiB each)"
                )
