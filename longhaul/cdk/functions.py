"""A Lambda function with the defaults that all of them have, and their shared code and layer."""

from pathlib import Path
from typing import Final

from aws_cdk import Duration, IgnoreMode, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from longhaul.cdk import layer
from longhaul.cdk.log_group import LogGroup
from longhaul.cdk.nag import acknowledge
from longhaul.config.settings import Settings
from longhaul.core.settings import VARIABLE

ARCHITECTURE: Final = {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}
# And GovCloud's. Lambda stops no chain there, and may refuse the setting. As of September 2025:
# https://github.com/aws/aws-lambda-roadmap/issues/18.
_WITHOUT_LOOP_DETECTION: Final = {"ap-southeast-6", "mx-central-1"}
# Of the engines: what makes the stack and what begins in a task are no part of it.
ENGINE_CODE: Final = [
    f"!longhaul/engines/{file}.py"
    for file in ("__init__", "listed", "tasks", "*/__init__", "*/ends", "*/tasks")
]
# Of the package, what functions and jobs share: the core, and the features that hang on it.
CORE_CODE: Final = [
    "!longhaul/*.py",
    *(f"!longhaul/{room}/**/*.py" for room in ("core", "pipelines", "outputs", "saved", "notices")),
    "longhaul/client.py",
    *ENGINE_CODE,
]
# Exclude everything, then include the Python files of the packages.
NOT_CODE: Final = ["*", "!functions/**/*.py", *CORE_CODE]


def allowed_loop(region: str) -> lambda_.RecursiveLoop | None:
    """What a function that sends jobs is set to; None in a region that has no such setting.

    A message that is renewed once more each ten days, and follow-ons of follow-ons, make a chain.
    Lambda stops a function at about the sixteenth message of one, unless told not to
    (https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html).
    """
    if region in _WITHOUT_LOOP_DETECTION or region.startswith("us-gov-"):
        return None
    return lambda_.RecursiveLoop.ALLOW


def named_for_sam(function: lambda_.Function) -> lambda_.CfnFunction:
    """The function's resource, with a name by which `sam local invoke` finds it.

    The name is the path below the stack, without what the CDK leaves out of logical ids. By itself
    sam reads a name out of a path only where that has at most three parts.
    """
    resource = function.node.default_child
    assert isinstance(resource, lambda_.CfnFunction)  # noqa: S101 - for mypy
    below = function.node.scopes[len(Stack.of(function).node.scopes) :]
    names = [scope.node.id for scope in below if scope.node.id != "Default"]
    resource.add_metadata("SamResourceId", "".join(names))
    return resource


class SharedCode(Construct):
    """One code asset and one layer: a deploy uploads each once."""

    def __init__(self, scope: Construct, id_: str, *, repository: Path, settings: Settings) -> None:
        super().__init__(scope, id_)
        self.code = lambda_.Code.from_asset(
            str(repository), exclude=NOT_CODE, ignore_mode=IgnoreMode.DOCKER
        )
        if Stack.of(self).bundling_required:
            packages = lambda_.Code.from_asset(str(layer.build(repository, settings.architecture)))
        else:
            packages = lambda_.Code.from_asset(
                str(repository / "functions"), exclude=["*", "!requirements.lock"]
            )
        self.layer = lambda_.LayerVersion(
            self,
            "Packages",
            code=packages,
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[ARCHITECTURE[settings.architecture]],
            description="What functions/requirements.lock pins",
        )


class PythonFunction(lambda_.Function):
    """`functions/<name>.py` as a function that may log and trace, and nothing else yet."""

    def __init__(  # noqa: PLR0913 - each is a decision of one function; the rest are defaults
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        description: str,
        shared: SharedCode,
        settings: Settings,
        runtime_settings: str,
        timeout: Duration,
        memory_mib: int,
        sends_jobs: bool,
    ) -> None:
        """`sends_jobs`: it may send to the queues that feed the dispatcher."""
        # Both are made in `scope`: `self` cannot be a scope before it is constructed.
        log_group = LogGroup(scope, f"{id_}Logs", settings=settings)
        # A role of our own: the default one gets a managed policy that may write every log group of
        # the account.
        # No aws:SourceAccount: AWS does not say that Lambda passes it whenever it assumes the
        # role, as to poll a queue, and then the role could not be assumed.
        role = iam.Role(
            scope, f"{id_}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")
        )
        log_group.grant_write(role)
        acknowledge(
            role,
            "IAM5[Resource::*]",
            "Tracing: xray:PutTraceSegments and PutTelemetryRecords know no resource.",
        )
        super().__init__(
            scope,
            id_,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=ARCHITECTURE[settings.architecture],
            code=shared.code,
            layers=[shared.layer],
            handler=f"functions.{name}.lambda_handler",
            description=description,
            role=role,
            timeout=timeout,
            memory_size=memory_mib,
            log_group=log_group,
            tracing=lambda_.Tracing.ACTIVE,
            recursive_loop=allowed_loop(Stack.of(scope).region) if sends_jobs else None,
            environment={
                VARIABLE: runtime_settings,
                "POWERTOOLS_SERVICE_NAME": name,
                "POWERTOOLS_LOG_LEVEL": settings.log_level,
            },
        )
        resource = named_for_sam(self)
        resource.code_signing_config_arn = settings.code_signing
        # `role` and `timeout` of `Function` may be None by their types; these never are.
        self.execution_role = role
        self.timeout_s = int(timeout.to_seconds())
        acknowledge(
            self,
            "L1",
            "3.13 is what the layer's wheels and the job's image are pinned to; "
            "the three move together.",
        )

    def receive_from(self, id_: str, queue: sqs.IQueue) -> None:
        """Invoke the function with the messages of the queue."""
        self.add_event_source_mapping(
            id_,
            event_source_arn=queue.queue_arn,
            # Said, so that a deploy turns on what a version before turned off for a retired stage.
            enabled=True,
            batch_size=10,
            # A window would lengthen the time for which messages are invisible.
            max_batching_window=Duration.seconds(0),
            # Five dispatchers look at some three hundred messages a second: an invalid body behind
            # a million is found within the hour. More would take the account's concurrency, of ten
            # at first, from the heartbeats.
            max_concurrency=5,
            # The dispatcher reports each message whose job runs as failed, so that the mapping does
            # not delete it. No filter: the mapping deletes what a filter drops.
            report_batch_item_failures=True,
        )
