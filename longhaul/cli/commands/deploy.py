"""`longhaul synth`, `preflight`, and the CDK with checks before it: `deploy` and others."""

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import runs

Arguments = Annotated[
    list[str] | None,
    typer.Argument(help="For the CDK's CLI, such as --profile NAME.", metavar="CDK-ARGS"),
]

Unchecked = Annotated[bool, typer.Option("--unchecked", help="Leave the checks out.")]


@runs
def synth(
    output: Annotated[
        Path, typer.Option(help="The folder for the template and its assets.", metavar="DIR")
    ] = Path("cdk.out"),
) -> None:
    """Write what `deploy` would send to CloudFormation, and ask AWS nothing.

    Example: longhaul synth --output cdk.out
    """


@runs
def bootstrap(arguments: Arguments = None) -> None:
    """Prepare an account and region for deployments, once: the role of ECS, and `cdk bootstrap`.

    Example: longhaul bootstrap --profile production
    """


@runs
def diff(arguments: Arguments = None) -> None:
    """Show what a deployment would change, and change nothing.

    Example: longhaul diff --profile production
    """


@runs
def preflight(arguments: Arguments = None) -> None:
    """Check what a deployment needs, and build nothing. Exit code 1 if there is a problem.

    Example: longhaul preflight --profile production
    """


@runs
def deploy(arguments: Arguments = None, *, unchecked: Unchecked = False) -> None:
    """Check what a deployment needs, build the image of the jobs, and deploy the stack.

    In a project it deploys the project's settings (longhaul.toml), jobs and requirements; elsewhere
    those of Longhaul itself. Needs AWS credentials and Docker.

    Example: longhaul deploy --profile production
    """


@runs
def destroy(arguments: Arguments = None, *, unchecked: Unchecked = False) -> None:
    """Take a drained stack down; its table and its bucket stay.

    Example: longhaul destroy --profile production
    """
