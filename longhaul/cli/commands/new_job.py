"""`longhaul new-job`: writes a working job and its test, to be changed."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import runs


@runs
def new_job(
    name: Annotated[str, typer.Argument(help="The job's name in messages.", metavar="NAME")],
    *,
    parts: Annotated[
        bool,
        typer.Option("--parts", help="One that writes in parts, and goes on where it was cut off."),
    ] = False,
    plain: Annotated[
        bool,
        typer.Option("--plain", help="One in plain Python, for which no Spark is started."),
    ] = False,
) -> None:
    """Write a new job into the project, with a test that passes.

    Example: longhaul new-job count_rows
    """
