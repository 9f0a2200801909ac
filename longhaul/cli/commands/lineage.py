"""`longhaul lineage`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import AsJson


@on_target
def lineage(
    *,
    data: Annotated[
        str,
        typer.Argument(
            metavar="s3://…|table://…", help="An output, a file or folder of one, or a table."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show which job, run and attempt wrote data, and from what, back to what came from elsewhere.

    It reads the manifests of outputs and the snapshots of tables: what they say of the version that
    was read. Where that has been replaced since, the walk ends there and says so.

    Example: longhaul lineage data:clean/2013-01/

    Example: longhaul lineage table://longhaul/flights --json
    """
