"""`longhaul bootstrap`, `diff`, `deploy` and `destroy`: the CDK, with checks before it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer

from longhaul.cli import bootstrap as service_role
from longhaul.cli import cdk, preflight, teardown
from longhaul.cli.extras import require
from longhaul.cli.project import chosen, make_ready
from longhaul.config.requirements import check_for_image

Arguments = Annotated[
    list[str] | None,
    typer.Argument(help="For the CDK's CLI, such as --profile NAME.", metavar="CDK-ARGS"),
]


def bootstrap(arguments: Arguments = None) -> None:
    """Prepare an account and region for deployments, once: the role of ECS, and `cdk bootstrap`.

    Example: longhaul bootstrap --profile production
    """
    _run("bootstrap", service_role.main, arguments)


def diff(arguments: Arguments = None) -> None:
    """Show what a deployment would change, and change nothing.

    Example: longhaul diff --profile production
    """
    _check_project()
    _run("diff", preflight.before_diff, arguments)


def deploy(arguments: Arguments = None) -> None:
    """Check what a deployment needs, build the image of the jobs, and deploy the stack.

    In a project it deploys the project's settings (longhaul.toml), jobs and requirements; elsewhere
    those of the checkout, as `make deploy` does. Needs AWS credentials and Docker.

    Example: longhaul deploy --profile production
    """
    _check_project()
    _run("deploy", preflight.main, arguments)


def destroy(arguments: Arguments = None) -> None:
    """Take a drained stack down; its table and its bucket stay.

    Example: longhaul destroy --profile production
    """
    _run("destroy", teardown.main, arguments)


def _check_project() -> None:
    require("deploy")
    project = chosen()
    if project is not None:
        make_ready(project, partial(check_for_image, project.requirements))


def _run(command: str, before: Callable[[Sequence[str]], int], arguments: list[str] | None) -> None:
    require("deploy")
    given = arguments or []
    if code := before(given):
        raise typer.Exit(code)
    if code := cdk.run([command, *given]):
        raise typer.Exit(code)
