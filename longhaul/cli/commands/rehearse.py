"""`longhaul rehearse`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import runs


@runs
def rehearse(
    *,
    profile: Annotated[str | None, typer.Option("--profile", help="AWS profile.")] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(
            "--context", "-c", metavar="KEY=VALUE", help="Settings, as for `longhaul deploy`."
        ),
    ] = None,
) -> None:
    """Ask CloudFormation what it would say to a deployment, and create nothing that stays.

    It makes a change set, which is never executed and is deleted at once: CloudFormation checks
    properties, names that are taken, quotas and hooks, and says what would be replaced.

    The exit code is 1 if there is a problem.

    Example: longhaul rehearse --profile production
    """
