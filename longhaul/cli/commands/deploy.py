"""`longhaul synth`, `bootstrap`, `diff`, `deploy` and `destroy`: the CDK, with checks before it."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import bootstrap as service_role
from longhaul.cli import cdk, preflight, teardown
from longhaul.cli import synth as synthesis
from longhaul.cli.extras import require
from longhaul.cli.project import chosen, make_ready
from longhaul.config.project import Project
from longhaul.config.requirements import check_for_image

Arguments = Annotated[
    list[str] | None,
    typer.Argument(help="For the CDK's CLI, such as --profile NAME.", metavar="CDK-ARGS"),
]


def synth(
    output: Annotated[
        Path, typer.Option(help="The folder for the template and its assets.", metavar="DIR")
    ] = Path("cdk.out"),
) -> None:
    """Write what `deploy` would send to CloudFormation, and ask AWS nothing.

    Example: longhaul synth --output cdk.out
    """
    project = _checked_project()
    folder = synthesis.synth(
        output.absolute(), profile=None, project=project.folder if project else None
    )
    for template in sorted(folder.glob("*.template.json")):
        typer.echo(template)


def bootstrap(arguments: Arguments = None) -> None:
    """Prepare an account and region for deployments, once: the role of ECS, and `cdk bootstrap`.

    Example: longhaul bootstrap --profile production
    """
    _run("bootstrap", service_role.main, arguments)


def diff(arguments: Arguments = None) -> None:
    """Show what a deployment would change, and change nothing.

    Example: longhaul diff --profile production
    """
    _checked_project()
    _run("diff", preflight.before_diff, arguments)


def deploy(arguments: Arguments = None) -> None:
    """Check what a deployment needs, build the image of the jobs, and deploy the stack.

    In a project it deploys the project's settings (longhaul.toml), jobs and requirements; elsewhere
    those of Longhaul itself. Needs AWS credentials and Docker.

    Example: longhaul deploy --profile production
    """
    _checked_project()
    _run("deploy", preflight.main, arguments)


def destroy(arguments: Arguments = None) -> None:
    """Take a drained stack down; its table and its bucket stay.

    Example: longhaul destroy --profile production
    """
    _run("destroy", teardown.main, arguments)


def _checked_project() -> Project | None:
    """The chosen project, if the image of its jobs can be built."""
    require("deploy")
    project = chosen()
    if project is not None:
        make_ready(project, partial(check_for_image, project.requirements))
    return project


def _run(command: str, before: Callable[[Sequence[str]], int], arguments: list[str] | None) -> None:
    require("deploy")
    given = arguments or []
    if code := before(given):
        raise typer.Exit(code)
    if code := cdk.run([command, *given]):
        raise typer.Exit(code)
