"""`longhaul pause`, `longhaul resume` and `longhaul slots`: what a stage may start, at once."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target

_Stage = Annotated[str, typer.Argument(metavar="STAGE", help="Name of the stage.")]


@on_target
def pause(
    *,
    stage: _Stage,
    drain: Annotated[
        bool, typer.Option("--drain", help="Return when none of its jobs runs any more.")
    ] = False,
) -> None:
    """Let no job of a stage start until `longhaul resume`. What runs goes on; messages wait.

    It holds from the next claim on, needs no deployment, and no deployment ends it.

    Example: longhaul pause main --drain
    """


@on_target
def resume(*, stage: _Stage) -> None:
    """Let the jobs of a paused stage start again.

    Those that wait are looked at within half an hour, and sooner the fewer they are.

    Example: longhaul resume main
    """


@on_target
def slots(
    *,
    stage: _Stage,
    count: Annotated[
        int,
        typer.Argument(metavar="N", min=1, help="Jobs that may run at once."),
    ],
) -> None:
    """Let N jobs of a stage run at once, whatever is deployed. What runs is not stopped.

    It holds until the number that is deployed is given: then the deployment decides again.

    Example: longhaul slots main 3
    """
