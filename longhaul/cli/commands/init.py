"""`longhaul init`: makes a project, a folder of a team's own."""

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import runs


@runs
def init(
    folder: Annotated[
        Path, typer.Argument(help="A new or empty folder.", metavar="DIR", show_default=False)
    ],
) -> None:
    """Make a project: settings, an example of a job with its test, and what runs the tests in CI.

    The folder must be new or empty; otherwise nothing is changed.

    Example: longhaul init flights
    """
