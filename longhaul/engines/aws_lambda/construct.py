"""The engine of the size `tiny`: for each stage a Lambda function made of the jobs' image.

A function has one role. One function for all stages would need a right to take the role of each,
and so would have the rights of all: its environment serves one job after the other.
"""

from typing import TYPE_CHECKING, Final

from aws_cdk import Duration, Size, Stack, Tags
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from longhaul.cdk.functions import ARCHITECTURE, named_for_sam
from longhaul.cdk.grants import allow
from longhaul.cdk.roles import job_roles, stage_id
from longhaul.config.known import as_json, variables_of
from longhaul.config.settings import Settings
from longhaul.config.sizes import TinySize
from longhaul.core.settings import JOB_VARIABLES, VARIABLE
from longhaul.engines.aws_lambda.ends import LAMBDA, MAX_RUN_S
from longhaul.engines.aws_lambda.states import lambda_states
from longhaul.engines.states import JobStates

if TYPE_CHECKING:
    from collections.abc import Mapping

# The image has no runtime client as its entry point: tasks start Python themselves.
ENTRYPOINT: Final = ["python", "-m", "awslambdaric"]
HANDLER: Final = "longhaul.engines.aws_lambda.runner.lambda_handler"
_BUILD_ARGS: Final = "aws:asset:docker-build-args"


class LambdaJobs(Construct):
    meaning = LAMBDA

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        tiny: TinySize,
        image: ecr_assets.DockerImageAsset,
        log_group: logs.ILogGroup,
    ) -> None:
        super().__init__(scope, id_)
        # No aws:SourceAccount, as for the other functions.
        self.job_roles: Mapping[str, iam.IRole] = job_roles(
            self,
            "JobRole",
            settings,
            what="a job on Lambda",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        )
        self._variables = variables_of(settings.stages)
        self._functions = {
            stage: self._function(stage, role, settings, tiny, image, log_group)
            for stage, role in self.job_roles.items()
        }

    def configure(self, runtime_settings: str) -> None:
        for stage, function in self._functions.items():
            function.add_environment(VARIABLE, runtime_settings)
            if stage in self._variables:
                own = as_json({stage: self._variables[stage]})
                function.add_environment(JOB_VARIABLES, own)

    def _function(
        self,
        stage: str,
        role: iam.IRole,
        settings: Settings,
        tiny: TinySize,
        image: ecr_assets.DockerImageAsset,
        log_group: logs.ILogGroup,
    ) -> lambda_.Function:
        # Not `grant_write`: where it may not change the role, it lets the whole account write.
        role.add_to_principal_policy(
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[log_group.log_group_arn],
            )
        )
        code = lambda_.DockerImageCode.from_ecr(
            image.repository, tag_or_digest=image.image_tag, entrypoint=ENTRYPOINT, cmd=[HANDLER]
        )
        # In no VPC: it reaches AWS and the internet without a NAT gateway.
        function = lambda_.DockerImageFunction(
            self,
            stage_id(stage, "Function"),
            code=code,
            architecture=ARCHITECTURE[settings.architecture],
            description=f"Runs jobs of the size tiny and the stage {stage}",
            role=role,
            timeout=Duration.seconds(MAX_RUN_S),
            memory_size=tiny.memory_mib,
            ephemeral_storage_size=Size.gibibytes(tiny.disk_gib),
            log_group=log_group,
            # The image's own is not writable here.
            environment={"TMPDIR": "/tmp"},  # noqa: S108 - the function's own
        )
        # For Cost Explorer, as each task has them: a function serves one stage.
        Tags.of(function).add("longhaul:stack", settings.stack_name)
        Tags.of(function).add("longhaul:stage", stage)
        resource = named_for_sam(function)
        # For `sam build`, which knows an image by this name of the property. With
        # `from_image_asset` the CDK would say it, and build a second image.
        image.add_resource_metadata(resource, "Code.ImageUri")
        built_with = resource.get_metadata(_BUILD_ARGS) or {}
        resource.add_metadata(_BUILD_ARGS, {**built_with, "RUN_AS": "root"})
        return function

    def states(self) -> JobStates:
        functions = {stage: each.function_arn for stage, each in self._functions.items()}
        return lambda_states(functions, Stack.of(self).partition)

    def grant_running(self, machine: iam.Role) -> None:
        # Unqualified only: `grant_invoke` would add every version and alias.
        arns = [each.function_arn for each in self._functions.values()]
        allow(machine, "RunTheJobOnLambda", ["lambda:InvokeFunction"], arns)

    def grant_stopping(self, role: iam.IRole) -> None:
        """Nothing: Lambda cannot stop an invocation."""

    def grant_finding(self, role: iam.IRole) -> None:
        """Nothing: Lambda does not list invocations."""
