"""What jobs run on: one cluster, one image, and one Fargate task definition per size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.logs import LogGroup
from infra.nag import acknowledge
from infra.settings import FARGATE_FREE_DISK_GIB, Settings, Size
from longhaul.settings import VARIABLE, SizeName

CONTAINER: Final = "job"
COMMAND: Final = ["python", "-m", "jobs.runner"]
# The root file system is read-only. These two are writable, on the task's ephemeral disk; the image gives them to its user (VOLUME).
SCRATCH: Final = {"scratch": "/scratch", "tmp": "/tmp"}  # noqa: S108 - a mount point inside the container
CPU_ARCHITECTURE: Final = {"arm64": ecs.CpuArchitecture.ARM64, "x86_64": ecs.CpuArchitecture.X86_64}
PLATFORM: Final = {"arm64": ecr_assets.Platform.LINUX_ARM64, "x86_64": ecr_assets.Platform.LINUX_AMD64}


class SparkRuntime(Construct):
    def __init__(self, scope: Construct, id_: str, *, settings: Settings, repository: Path) -> None:
        super().__init__(scope, id_)
        self._settings = settings
        # Not `ecs.Cluster`, which makes a VPC when it is given none. A cluster of Fargate tasks is but a name.
        self.cluster = ecs.CfnCluster(self, "Cluster", capacity_providers=["FARGATE", "FARGATE_SPOT"])
        acknowledge(
            self.cluster,
            "ECS4",
            "Container Insights is paid per task and metric; a job's progress and outcome are in its lease row.",
        )
        self.logs = LogGroup(self, "Logs", retention_days=settings.log_retention_days)
        self.image = ecr_assets.DockerImageAsset(
            self,
            "Image",
            directory=str(repository),
            file="jobs/Dockerfile",  # what goes in is said by the `.dockerignore` beside it
            platform=PLATFORM[settings.architecture],
            build_args={"PYTHON_IMAGE": settings.python_image},
        )
        self.task_role = iam.Role(self, "TaskRole", assumed_by=_ecs_tasks(), description="What a job may do")
        self.execution_role = iam.Role(
            self,
            "ExecutionRole",
            assumed_by=_ecs_tasks(),
            description="How ECS pulls the job's image and writes its log",
        )
        acknowledge(self.execution_role, "IAM5[Resource::*]", "ecr:GetAuthorizationToken knows no resource.")

    def add_task_definitions(self, runtime_settings: Mapping[str, object]) -> None:
        """One for each size. Apart from the rest, because the runtime settings name this cluster and log group."""
        known = Stack.of(self).to_json_string(runtime_settings)
        for name, size in self._settings.sizes.by_name().items():
            self._add_task_definition(name, size, known)

    def _add_task_definition(self, name: SizeName, size: Size, runtime_settings: str) -> None:
        settings = self._settings
        task = ecs.FargateTaskDefinition(
            self,
            name.capitalize(),
            # Executions live for days and name the family: a new revision must not make their task definition inactive.
            family=family(settings.stack_name, name),
            cpu=size.cpu,
            memory_limit_mib=size.memory_mib,
            ephemeral_storage_gib=size.disk_gib if size.disk_gib > FARGATE_FREE_DISK_GIB else None,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=CPU_ARCHITECTURE[settings.architecture],
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
            task_role=self.task_role,
            execution_role=self.execution_role,
            volumes=[ecs.Volume(name=volume) for volume in SCRATCH],
        )
        acknowledge(task, "ECS2", "The settings are names and numbers, none of them secret.")
        container = task.add_container(
            CONTAINER,
            container_name=CONTAINER,
            image=ecs.ContainerImage.from_docker_image_asset(self.image),
            command=COMMAND,
            environment={VARIABLE: runtime_settings},
            # A log that CloudWatch takes slowly must not stop the job: what does not fit the buffer is lost instead.
            logging=ecs.LogDriver.aws_logs(
                stream_prefix=CONTAINER, log_group=self.logs, mode=ecs.AwsLogDriverMode.NON_BLOCKING
            ),
            stop_timeout=Duration.seconds(settings.lease.stop_timeout_s),
            readonly_root_filesystem=True,
            # An init that forwards SIGTERM and reaps what Spark's JVM leaves behind.
            linux_parameters=ecs.LinuxParameters(self, f"{name.capitalize()}Init", init_process_enabled=True),
        )
        container.add_mount_points(
            *(
                ecs.MountPoint(source_volume=volume, container_path=path, read_only=False)
                for volume, path in SCRATCH.items()
            )
        )


def family(stack_name: str, size: str) -> str:
    return f"{stack_name}-{size}"


def _ecs_tasks() -> iam.ServicePrincipal:
    return iam.ServicePrincipal("ecs-tasks.amazonaws.com")
