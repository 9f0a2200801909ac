"""What `longhaul synth` and the commands of the CDK do: checks before it, and the CDK."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import typer

from longhaul.cli import bootstrap as service_role
from longhaul.cli import cdk, teardown
from longhaul.cli import preflight as preflight_checks
from longhaul.cli import synth as synthesis
from longhaul.cli.extras import require
from longhaul.cli.local_project import make_ready
from longhaul.cli.project import chosen
from longhaul.config.project import Project
from longhaul.config.requirements import check_for_image
from longhaul.config.settings import Settings

Checks = Callable[[Sequence[str]], int]
"""Gets the CDK's arguments; returns an exit code, 0 where the CDK may run."""


def synth(*, output: Path) -> None:
    project = checked_project()
    folder = synthesis.synth(
        output.absolute(), profile=None, project=project.folder if project else None
    )
    for template in sorted(folder.glob("*.template.json")):
        typer.echo(template)


def bootstrap(*, arguments: list[str] | None) -> None:
    _run("bootstrap", service_role.main, with_qualifier(arguments or ()))


def with_qualifier(arguments: Sequence[str]) -> list[str]:
    """The arguments of `cdk bootstrap`, with the qualifier of the settings.

    The stack of a bootstrap that has another qualifier gets another name: under the same one, it
    would replace the bucket and the roles that other deployments use.
    """
    contexts = preflight_checks.parsed(arguments, "longhaul bootstrap").context
    qualifier = preflight_checks.given_settings(contexts).bootstrap_qualifier
    usual = Settings.model_fields["bootstrap_qualifier"].default
    if qualifier == usual or any(each.partition("=")[0] == "--qualifier" for each in arguments):
        return [*arguments]
    names = ["--qualifier", qualifier, "--toolkit-stack-name", f"CDKToolkit-{qualifier}"]
    return [*arguments, *names]


def diff(*, arguments: list[str] | None) -> None:
    checked_project()
    _run("diff", preflight_checks.before_diff, arguments)


def preflight(*, arguments: list[str] | None) -> None:
    require("deploy")
    _check(preflight_checks.main, arguments)


def deploy(*, arguments: list[str] | None, unchecked: bool) -> None:
    checked_project()
    _run("deploy", None if unchecked else preflight_checks.main, arguments)


def destroy(*, arguments: list[str] | None, unchecked: bool) -> None:
    _run("destroy", None if unchecked else teardown.main, arguments)


def checked_project() -> Project | None:
    """The chosen project, if the image of its jobs can be built."""
    require("deploy")
    project = chosen()
    if project is not None:
        make_ready(project, partial(check_for_image, project.requirements))
    return project


def _run(command: str, before: Checks | None, arguments: list[str] | None) -> None:
    require("deploy")
    if before is not None:
        _check(before, arguments)
    if code := cdk.run([command, *(arguments or ())]):
        raise typer.Exit(code)


def _check(checks: Checks, arguments: list[str] | None) -> None:
    if code := checks(arguments or ()):
        raise typer.Exit(code)
