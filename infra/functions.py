"""The house's Lambda function, and the code and layer that all of them share."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aws_cdk import Duration, IgnoreMode, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import layer
from infra.logs import LogGroup
from infra.nag import acknowledge
from infra.settings import CONTEXT_KEY, Settings, SettingsError
from longhaul.settings import VARIABLE

ARCHITECTURE: Final = {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}
# Everything out, then the two packages' Python files in again.
NOT_CODE: Final = ["*", "!functions/**/*.py", "!longhaul/**/*.py"]
# Lambda's limit is 4 KiB for all variables of a function; the rest is for Powertools'.
ROOM_FOR_SETTINGS: Final = 4096 - 128
# What a token may become: CloudFormation's names have at most 80 characters, a queue's URL or an ARN 53 more; a region at most 14.
LONGEST_NAME: Final = 133
LONGEST_PSEUDO: Final = 14
_PSEUDO: Final = re.compile(r"\$\{Token\[AWS[^]]*]}")
_NAME: Final = re.compile(r"\$\{Token\[[^]]*]}")


class SharedCode(Construct):
    """One code asset and one layer: a deploy uploads each once."""

    def __init__(self, scope: Construct, id_: str, *, repository: Path, settings: Settings) -> None:
        super().__init__(scope, id_)
        self.code = lambda_.Code.from_asset(str(repository), exclude=NOT_CODE, ignore_mode=IgnoreMode.DOCKER)
        self.packages = layer.build(
            requirements=repository / "functions" / "requirements.txt",
            architecture=settings.architecture,
            cache=repository / ".cache" / "layer",
        )
        self.layer = lambda_.LayerVersion(
            self,
            "Packages",
            code=lambda_.Code.from_asset(str(self.packages)),
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
        acknowledge(
            role, "IAM5[Resource::*]", "Tracing: xray:PutTraceSegments and PutTelemetryRecords know no resource."
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
            log_group=logs,
            tracing=lambda_.Tracing.ACTIVE,
            environment={
                VARIABLE: _text(scope, runtime_settings),
                "POWERTOOLS_SERVICE_NAME": name,
                "POWERTOOLS_LOG_LEVEL": settings.log_level,
            },
        )
        # `Function.role` may be absent, says its type; ours never is.
        self.house_role = role
        acknowledge(
            self, "L1", "3.13 is what the layer's wheels and the job's image are pinned to; the three move together."
        )


def _text(scope: Construct, runtime_settings: Mapping[str, object]) -> str:
    """The settings as JSON for the environment, if it will fit there.

    Raises:
        SettingsError: it would not, once CloudFormation has put in the names.
    """
    length = len(_NAME.sub("x" * LONGEST_NAME, _PSEUDO.sub("x" * LONGEST_PSEUDO, json.dumps(runtime_settings))))
    if length > ROOM_FOR_SETTINGS:
        raise SettingsError(
            f"{CONTEXT_KEY}: needs up to {length} bytes of a function's environment, which has {ROOM_FOR_SETTINGS} for it; "
            "use fewer stages or buckets, or shorter names"
        )
    return Stack.of(scope).to_json_string(runtime_settings)
