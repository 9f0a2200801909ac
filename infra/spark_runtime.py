"""What jobs run on: one cluster, one image, and one Fargate task definition per size."""

from pathlib import Path
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra import settings
from infra.logs import LogGroup
from longhaul.settings import VARIABLE, SizeName

CONTAINER: Final = "job"
COMMAND: Final = ["python", "-m", "jobs.runner"]
# The root file system is read-only. These two are writable, on the task's ephemeral disk; the image gives them to its user (VOLUME).
SCRATCH: Final = {"scratch": "/scratch", "tmp": "/tmp"}  # noqa: S108 - a mount point inside the container
CPU_ARCHITECTURE: Final = {"arm64": ecs.CpuArchitecture.ARM64, "x86_64": ecs.CpuArchitecture.X86_64}
PLATFORM: Final = {"arm64": ecr_assets.Platform.LINUX_ARM64, "x86_64": ecr_assets.Platform.LINUX_AMD64}


class SparkRuntime(Construct):
    def __init__(
        self, scope: Construct, id_: str, *, deployment: settings.Settings, runtime_settings: str, repository: Path
    ) -> None:
        super().__init__(scope, id_)
        self.cluster = ecs.CfnCluster(self, "Cluster")
        self.logs = LogGroup(self, "Logs", retention_days=deployment.log_retention_days)
        self.image = ecr_assets.DockerImageAsset(
            self,
            "Image",
            directory=str(repository),
            file="jobs/Dockerfile",  # what goes in is said by the `.dockerignore` beside it
            platform=PLATFORM[deployment.architecture],
            build_args={"PYTHON_IMAGE": deployment.python_image},
        )
        self.task_role = iam.Role(self, "TaskRole", assumed_by=_ecs_tasks(), description="What a job may do")
        self.execution_role = iam.Role(
            self,
            "ExecutionRole",
            assumed_by=_ecs_tasks(),
            description="How ECS pulls the job's image and writes its log",
        )
        self.task_definitions = {
            name: self._task_definition(name, size, deployment, runtime_settings)
            for name, size in deployment.sizes.by_name().items()
        }

    def _task_definition(
        self, name: SizeName, size: settings.Size, deployment: settings.Settings, runtime_settings: str
    ) -> ecs.FargateTaskDefinition:
        task = ecs.FargateTaskDefinition(
            self,
            name.capitalize(),
            # Executions live for days and name the family: a new revision must not make their task definition inactive.
            family=family(deployment.stack_name, name),
            cpu=size.cpu,
            memory_limit_mib=size.memory_mib,
            ephemeral_storage_gib=size.disk_gib if size.disk_gib > settings.FARGATE_FREE_DISK_GIB else None,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=CPU_ARCHITECTURE[deployment.architecture],
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
            task_role=self.task_role,
            execution_role=self.execution_role,
            volumes=[ecs.Volume(name=volume) for volume in SCRATCH],
        )
        container = task.add_container(
            CONTAINER,
            container_name=CONTAINER,
            image=ecs.ContainerImage.from_docker_image_asset(self.image),
            command=COMMAND,
            environment={VARIABLE: runtime_settings},
            # A log that CloudWatch takes slowly must not stop the job: what does not fit the buffer is lost instead.
            logging=ecs.LogDriver.aws_logs(
                stream_prefix=name, log_group=self.logs, mode=ecs.AwsLogDriverMode.NON_BLOCKING
            ),
            stop_timeout=Duration.seconds(deployment.lease.stop_timeout_s),
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
        return task


def family(stack_name: str, size: str) -> str:
    return f"{stack_name}-{size}"


def _ecs_tasks() -> iam.ServicePrincipal:
    return iam.ServicePrincipal("ecs-tasks.amazonaws.com")
