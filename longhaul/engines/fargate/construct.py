"""What jobs run on: one cluster, one image, and one Fargate task definition for each size."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from aws_cdk import Duration, Stack
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from longhaul.cdk.grants import WHY_ANY_TASK, allow, find_tasks, for_this_account, stop_tasks
from longhaul.cdk.image import job_image
from longhaul.cdk.log_group import LogGroup
from longhaul.cdk.nag import acknowledge
from longhaul.cdk.network import Network
from longhaul.cdk.roles import job_roles
from longhaul.config.known import as_json, variables_of
from longhaul.config.project import Project
from longhaul.config.settings import Settings
from longhaul.config.sizes import FARGATE_FREE_DISK_GIB, Size
from longhaul.core.settings import JOB_VARIABLES, VARIABLE, SizeName
from longhaul.engines.fargate.ends import CONTAINER, FARGATE
from longhaul.engines.fargate.states import fargate_states
from longhaul.engines.states import JobStates

if TYPE_CHECKING:
    from collections.abc import Mapping

# Step Functions makes this rule itself, once for each account. It reports the end of what it runs
# with `.sync`.
SYNC_RULE: Final = "StepFunctionsGetEventsForECSTaskRule"
COMMAND: Final = ["python", "-m", "longhaul.engines.fargate.runner"]
# Volume → path. The root file system is read-only; these are writable, on the task's ephemeral
# disk. The image gives them to its user (VOLUME).
SCRATCH: Final = {"scratch": "/scratch", "tmp": "/tmp"}  # noqa: S108 - a mount point inside the container
CPU_ARCHITECTURE: Final = {"arm64": ecs.CpuArchitecture.ARM64, "x86_64": ecs.CpuArchitecture.X86_64}


class SparkRuntime(Construct):
    meaning = FARGATE

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        repository: Path,
        project: Project | None,
        network: Network,
    ) -> None:
        super().__init__(scope, id_)
        self._settings = settings
        self.network = network
        # Not `ecs.Cluster`, which makes a VPC when it gets none. A cluster of Fargate tasks needs
        # none.
        self.cluster = ecs.CfnCluster(
            self, "Cluster", capacity_providers=["FARGATE", "FARGATE_SPOT"]
        )
        acknowledge(
            self.cluster,
            "ECS4",
            "Container Insights is paid per task and metric; "
            "a job's progress and outcome are in its lease row.",
        )
        self.log_group = LogGroup(self, "Logs", settings=settings)
        self.image = job_image(
            self, "Image", settings=settings, repository=repository, project=project
        )
        self.job_roles: Mapping[str, iam.IRole] = job_roles(
            self, "TaskRole", settings, what="a task", assumed_by=_ecs_tasks(self)
        )
        self.execution_role = iam.Role(
            self,
            "ExecutionRole",
            assumed_by=_ecs_tasks(self),
            description="How ECS pulls the job's image and writes its log",
        )
        acknowledge(
            self.execution_role, "IAM5[Resource::*]", "ecr:GetAuthorizationToken knows no resource."
        )

    @property
    def tasks(self) -> str:
        """The ARN pattern of every task in the cluster."""
        return Stack.of(self).format_arn(
            service="ecs", resource="task", resource_name=f"{self.cluster.ref}/*"
        )

    def configure(self, runtime_settings: str) -> None:
        """Add a task definition for each size."""
        for name, size in self._settings.sizes.by_name().items():
            self._add_task_definition(name, size, runtime_settings)

    def states(self) -> JobStates:
        network = self.network
        return fargate_states(
            {
                "Cluster": self.cluster.attr_arn,
                "NetworkConfiguration": {
                    "AwsvpcConfiguration": {
                        "Subnets": network.subnet_ids,
                        "SecurityGroups": [network.security_group.security_group_id],
                        "AssignPublicIp": "ENABLED" if network.assign_public_ip else "DISABLED",
                    }
                },
            },
            self._settings.stack_name,
            {stage: role.role_arn for stage, role in self.job_roles.items()},
            Stack.of(self).partition,
        )

    def grant_running(self, machine: iam.Role) -> None:
        stack = Stack.of(self)
        allow(
            machine,
            "RunTheJob",
            ["ecs:RunTask"],
            [
                stack.format_arn(
                    service="ecs",
                    resource="task-definition",
                    resource_name=f"{family(self._settings.stack_name, size)}:*",
                )
                for size in self._settings.sizes.by_name()
            ],
            conditions={"ArnEquals": {"ecs:cluster": self.cluster.attr_arn}},
            wildcards=(
                "Any revision of our families: executions name the family, and outlive revisions."
            ),
        )
        allow(
            machine,
            "TagTheTask",
            ["ecs:TagResource"],
            [self.tasks],
            # A task that it starts, and none that runs.
            conditions={"StringEquals": {"ecs:CreateAction": "RunTask"}},
            wildcards=WHY_ANY_TASK,
        )
        allow(
            machine,
            "FollowTheTask",
            ["ecs:StopTask", "ecs:DescribeTasks"],
            [self.tasks],
            wildcards=WHY_ANY_TASK,
        )
        allow(
            machine,
            "HearOfItsEnd",
            ["events:PutTargets", "events:PutRule", "events:DescribeRule"],
            [stack.format_arn(service="events", resource="rule", resource_name=SYNC_RULE)],
        )
        allow(
            machine,
            "LendItsRoles",
            ["iam:PassRole"],
            [*(role.role_arn for role in self.job_roles.values()), self.execution_role.role_arn],
            conditions={"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
        )

    def grant_stopping(self, role: iam.IRole) -> None:
        stop_tasks(role, self.tasks)

    def grant_finding(self, role: iam.IRole) -> None:
        find_tasks(role, self.cluster.attr_arn)

    def _variables(self) -> dict[str, str]:
        """Of all stages: a size has one definition, and the runner takes those of its job's."""
        variables = variables_of(self._settings.stages)
        return {JOB_VARIABLES: as_json(variables)} if variables else {}

    def _add_task_definition(self, name: SizeName, size: Size, runtime_settings: str) -> None:
        settings = self._settings
        task = ecs.FargateTaskDefinition(
            self,
            name.capitalize(),
            # Executions live for days and name the family, so that a deploy's new revision does not
            # leave them with an inactive one.
            family=family(settings.stack_name, name),
            cpu=size.cpu,
            memory_limit_mib=size.memory_mib,
            ephemeral_storage_gib=size.disk_gib if size.disk_gib > FARGATE_FREE_DISK_GIB else None,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=CPU_ARCHITECTURE[settings.architecture],
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
            # The CDK makes one where none is given.
            task_role=next(iter(self.job_roles.values())),
            execution_role=self.execution_role,
            volumes=[ecs.Volume(name=volume) for volume in SCRATCH],
        )
        resource = task.node.default_child
        assert isinstance(resource, ecs.CfnTaskDefinition)  # noqa: S101 - for mypy
        # Which stage's it is, the call that starts the task says.
        resource.add_property_deletion_override("TaskRoleArn")
        acknowledge(task, "ECS2", "The settings are names and numbers, none of them secret.")
        container = task.add_container(
            CONTAINER,
            container_name=CONTAINER,
            image=ecs.ContainerImage.from_docker_image_asset(self.image),
            command=COMMAND,
            environment={VARIABLE: runtime_settings, **self._variables()},
            # Non-blocking: when CloudWatch is slow, lines that do not fit the buffer are lost, and
            # the job goes on.
            logging=ecs.LogDriver.aws_logs(
                stream_prefix=CONTAINER,
                log_group=self.log_group,
                mode=ecs.AwsLogDriverMode.NON_BLOCKING,
            ),
            stop_timeout=Duration.seconds(settings.lease.stop_timeout_s),
            readonly_root_filesystem=True,
            # The init process forwards SIGTERM and reaps the processes that Spark's JVM leaves.
            linux_parameters=ecs.LinuxParameters(
                self, f"{name.capitalize()}Init", init_process_enabled=True
            ),
        )
        container.add_mount_points(
            *(
                ecs.MountPoint(source_volume=volume, container_path=path, read_only=False)
                for volume, path in SCRATCH.items()
            )
        )


def family(stack_name: str, size: str) -> str:
    """The task definition family of a size."""
    return f"{stack_name}-{size}"


def _ecs_tasks(scope: Construct) -> iam.ServicePrincipal:
    # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
    return for_this_account(scope, "ecs-tasks.amazonaws.com")
