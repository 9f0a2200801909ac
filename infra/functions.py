"""The house's Lambda function, and the code and layer that all of them share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aws_cdk import Duration, IgnoreMode, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import layer
from infra.logs import LogGroup
from infra.settings import Settings
from longhaul.settings import VARIABLE

ARCHITECTURE: Final = {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}
# Everything out, then the two packages' Python files in again.
NOT_CODE: Final = ["*", "!functions/**/*.py", "!longhaul/**/*.py"]


class SharedCode(Construct):
    """One code asset and one layer: a deploy uploads each once."""

    def __init__(self, scope: Construct, id_: str, *, repository: Path, settings: Settings) -> None:
        super().__init__(scope, id_)
        self.code = lambda_.Code.from_asset(str(repository), exclude=NOT_CODE, ignore_mode=IgnoreMode.DOCKER)
        folder = layer.build(
            requirements=repository / "functions" / "requirements.txt",
            architecture=settings.architecture,
            cache=repository / ".cache" / "layer",
        )
        self.layer = lambda_.LayerVersion(
            self,
            "Packages",
            code=lambda_.Code.from_asset(str(folder)),
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[ARCHITECTURE[settings.architecture]],
            description="What functions/requirements.txt pins",
        )


class PythonFunction(lambda_.Function):
    """`functions/<name>.py` as a function, with the house's defaults; it may do nothing yet but log and trace."""

    def __init__(  # noqa: PLR0913 - each is a decision of one function; the rest are defaults
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        description: str,
        shared: SharedCode,
        settings: Settings,
        runtime_settings: Mapping[str, object],
        timeout: Duration,
        memory_mib: int = 512,
    ) -> None:
        # Beside the function, not below it: `self` cannot be a scope before it is constructed.
        logs = LogGroup(scope, f"{id_}Logs", retention_days=settings.log_retention_days)
        # A role of our own: the one by default gets a managed policy that may write every log group of the account.
        role = iam.Role(scope, f"{id_}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        logs.grant_write(role)
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
            log_group=logs,
            tracing=lambda_.Tracing.ACTIVE,
            environment={
                VARIABLE: Stack.of(scope).to_json_string(runtime_settings),
                "POWERTOOLS_SERVICE_NAME": name,
                "POWERTOOLS_LOG_LEVEL": settings.log_level,
            },
        )
