"""`longhaul synth`, and the CDK with checks before it: `deploy` and others."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.extras import require
from longhaul.cli.project import chosen

if TYPE_CHECKING:
    from longhaul.config.project import Project


Checks = Callable[[Sequence[str]], int]
"""Gets the CDK's arguments; returns an exit code, 0 where the CDK may run."""


Arguments = Annotated[
    list[str] | None,
    typer.Argument(help="For the CDK's CLI, such as --profile NAME.", metavar="CDK-ARGS"),
]

Unchecked = Annotated[bool, typer.Option("--unchecked", help="Leave the checks out.")]


def synth(
    output: Annotated[
        Path, typer.Option(help="The folder for the template and its assets.", metavar="DIR")
    ] = Path("cdk.out"),
) -> None:
    """Write what `deploy` would send to CloudFormation, and ask AWS nothing.

    For a review, or for a pipeline that deploys by itself.

    Example: longhaul synth --output cdk.out
    """
    from longhaul.cli import synth as synthesis

    project = checked_project()
    folder = synthesis.synth(
        output.absolute(), profile=None, project=project.folder if project else None
    )
    for template in sorted(folder.glob("*.template.json")):
        typer.echo(template)


def bootstrap(arguments: Arguments = None) -> None:
    """Prepare an account and region for deployments, once: the role of ECS, and `cdk bootstrap`.

    Example: longhaul bootstrap --profile production
    """
    from longhaul.cli import bootstrap as service_role

    _run("bootstrap", service_role.main, with_qualifier(arguments or ()))


def diff(arguments: Arguments = None) -> None:
    """Show what a deployment would change, and change nothing.

    Example: longhaul diff --profile production
    """
    from longhaul.cli import preflight as preflight_checks

    checked_project()
    _run("diff", preflight_checks.before_diff, arguments)


def deploy(arguments: Arguments = None, *, unchecked: Unchecked = False) -> None:
    """Check what a deployment needs, build the image of the jobs, and deploy the stack.

    In a project it deploys the project's settings (longhaul.toml), jobs and requirements; elsewhere
    those of Longhaul itself. Needs AWS credentials and Docker. docs/deploy.md#the-checks says what
    is checked; `longhaul check` makes the checks alone.

    Example: longhaul deploy --profile production
    """
    from longhaul.cli import preflight as preflight_checks

    checked_project()
    _run("deploy", None if unchecked else preflight_checks.main, arguments)


def destroy(arguments: Arguments = None, *, unchecked: Unchecked = False) -> None:
    """Take a drained stack down; its table and its bucket stay (docs/deploy.md#taking-it-down).

    Example: longhaul destroy --profile production
    """
    from longhaul.cli import teardown

    _run("destroy", None if unchecked else teardown.main, arguments)


def with_qualifier(arguments: Sequence[str]) -> list[str]:
    """The arguments of `cdk bootstrap`, with the qualifier of the settings.

    The stack of a bootstrap that has another qualifier gets another name: under the same one, it
    would replace the bucket and the roles that other deployments use.
    """
    from longhaul.cli import preflight as preflight_checks
    from longhaul.config.settings import Settings

    contexts = preflight_checks.parsed(arguments, "longhaul bootstrap").context
    qualifier = preflight_checks.given_settings(contexts).bootstrap_qualifier
    usual = Settings.model_fields["bootstrap_qualifier"].default
    if qualifier == usual or any(each.partition("=")[0] == "--qualifier" for each in arguments):
        return [*arguments]
    names = ["--qualifier", qualifier, "--toolkit-stack-name", f"CDKToolkit-{qualifier}"]
    return [*arguments, *names]


def checked_project() -> "Project | None":
    """The chosen project, if the image of its jobs can be built."""
    from longhaul.cli.local_project import make_ready
    from longhaul.config.requirements import check_for_image

    require("deploy")
    project = chosen()
    if project is not None:
        make_ready(project, partial(check_for_image, project.requirements))
    return project


def _run(command: str, before: Checks | None, arguments: list[str] | None) -> None:
    from longhaul.cli import cdk

    require("deploy")
    if before is not None:
        _check(before, arguments)
    if code := cdk.run([command, *(arguments or ())]):
        raise typer.Exit(code)


def _check(checks: Checks, arguments: list[str] | None) -> None:
    if code := checks(arguments or ()):
        raise typer.Exit(code)
