"""`longhaul console`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from longhaul.cli.terminal.declaring import on_target


@on_target
def console(
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")] = 0,
    export: Annotated[
        Path | None, typer.Option(help="Write the page to this file, and serve nothing.")
    ] = None,
    within: Annotated[
        Literal["1h", "6h", "1d", "7d"], typer.Option(help="With --export: jobs that ended since.")
    ] = "7d",
) -> None:
    """Serve a live page on this machine, until Ctrl-C; it can cancel, retry and redrive.

    Prints a secret link: open it in your browser. It gives the rights of your credentials over
    jobs: keep it, and every address of the page, to yourself. Without it nothing is served.
    The page calls AWS only while it is looked at. With --export the page writes itself to a file,
    which loads nothing and runs no script.

    Example: longhaul console --export yesterday.html --within 1d
    """
