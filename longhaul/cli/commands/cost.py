"""`longhaul cost`: what jobs cost, and what part of it was wasted."""

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import AsJson, Most, NewerThan, OlderThan, StageOption


@on_target
def cost(
    *,
    job: Annotated[
        str | None, typer.Argument(help="A job's id; without it, all jobs by stage.")
    ] = None,
    by_job: Annotated[
        bool,
        typer.Option("--jobs", help="Each job instead of each stage, the most expensive first."),
    ] = False,
    stage: StageOption = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    most: Most = 1000,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices", help="Your own price table, in the same form.", show_default="built in"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what jobs cost: each attempt of one job, or each stage.

    Task time is ECS's own where it is known; calls around it are counted or modelled. docs/cost.md
    says what is counted, what is assumed, and what is left out.

    Example: longhaul cost flights-2013-01

    Example: longhaul cost --newer-than 1d --jobs
    """
