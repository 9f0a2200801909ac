"""`longhaul synth`, and the CDK with checks before it: `deploy` and others."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.errors import CommandError
from longhaul.cli.extras import require
from longhaul.cli.project import chosen
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.checks.finding import Finding
    from longhaul.cli.checks.plan import Plan
    from longhaul.config.project import Project


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
    synthesized(output.absolute())
    for template in sorted(output.absolute().glob("*.template.json")):
        typer.echo(template)


def bootstrap(arguments: Arguments = None) -> None:
    """Prepare an account and region for deployments, once: the role of ECS, and `cdk bootstrap`.

    Example: longhaul bootstrap --profile production
    """
    require("deploy")
    plan = _plan(arguments)
    make_service_role(plan.target.client("iam"))
    _run("bootstrap", with_qualifier(arguments or (), plan.settings.bootstrap_qualifier))


def diff(arguments: Arguments = None) -> None:
    """Show what a deployment would change, and change nothing.

    Example: longhaul diff --profile production
    """
    checked_project()
    _plan(arguments)
    _run("diff", arguments or ())


def deploy(arguments: Arguments = None, *, unchecked: Unchecked = False) -> None:
    """Check what a deployment needs, build the image of the jobs, and deploy the stack.

    In a project it deploys the project's settings (longhaul.toml), jobs and requirements; elsewhere
    those of Longhaul itself. Needs AWS credentials and Docker. docs/deploy.md#the-checks says what
    is checked; `longhaul check` makes the checks alone.

    Example: longhaul deploy --profile production
    """
    checked_project()
    if not unchecked:
        from longhaul.cli.checks.listed import of_deployment

        _stop_at_problems(of_deployment(_plan(arguments)), "built or deployed")
    _run("deploy", arguments or ())


def destroy(arguments: Arguments = None, *, unchecked: Unchecked = False) -> None:
    """Take a drained stack down; its table and its bucket stay (docs/deploy.md#taking-it-down).

    Example: longhaul destroy --profile production
    """
    require("deploy")
    if not unchecked:
        from longhaul.cli.checks import teardown
        from longhaul.operations.drain import Drainer

        _stop_at_problems(teardown.findings(Drainer(_plan(arguments).target)), "deleted")
    _run("destroy", arguments or ())


def _plan(arguments: Sequence[str] | None) -> "Plan":
    """Where it goes, which the credentials have to be right for."""
    from longhaul.cli.checks.plan import plan_for

    return plan_for(arguments or ())


def make_service_role(iam: Any) -> None:  # noqa: ANN401 - one of boto3's clients
    """Make the service-linked role of ECS unless the account has it.

    In an account without it, the first cluster with capacity providers fails.
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/using-service-linked-roles.html
    """
    from longhaul.cli.checks.deployment import has_service_role

    # Looked for first: an account that has it may deny the making.
    if not has_service_role(iam):
        iam.create_service_linked_role(AWSServiceName="ecs.amazonaws.com")


def with_qualifier(arguments: Sequence[str], qualifier: str) -> list[str]:
    """The arguments of `cdk bootstrap`, with the qualifier of the settings.

    The stack of a bootstrap that has another qualifier gets another name: under the same one, it
    would replace the bucket and the roles that other deployments use.
    """
    from longhaul.config.settings import Settings

    usual = Settings.model_fields["bootstrap_qualifier"].default
    if qualifier == usual or any(each.partition("=")[0] == "--qualifier" for each in arguments):
        return [*arguments]
    names = ["--qualifier", qualifier, "--toolkit-stack-name", f"CDKToolkit-{qualifier}"]
    return [*arguments, *names]


def synthesized(folder: Path, context: Sequence[str] = ()) -> None:
    """Write what would be deployed into the folder."""
    from longhaul.cli.synth import synth

    project = checked_project()
    pairs = (each.partition("=") for each in context)
    given: dict[str, object] = {key: value for key, _, value in pairs}
    synth(folder, profile=None, context=given, project=project.folder if project else None)


def checked_project() -> "Project | None":
    """The chosen project, if the image of its jobs can be built."""
    from longhaul.cli.local_project import make_ready

    require("deploy")
    project = chosen()
    if project is not None:
        make_ready(project)
    return project


def _stop_at_problems(findings: "Iterable[Finding]", done: str) -> None:
    from longhaul.cli.checks.finding import Level
    from longhaul.cli.checks.listed import tell

    if problems := tell(Output(), findings)[Level.PROBLEM]:
        raise CommandError(f"{problems} to solve first; nothing was {done}")


def _run(command: str, arguments: Sequence[str]) -> None:
    from longhaul.cli import cdk

    if code := cdk.run([command, *arguments]):
        raise typer.Exit(code)
