"""`longhaul table`: list, show, query and check the tables that jobs wrote."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import MANY, AsJson

app = typer.Typer(
    no_args_is_help=True,
    help="Tables: what jobs wrote with an output `table://DATABASE/NAME`.",
)


@app.command("list")
@on_target
def list_tables(*, as_json: AsJson = False) -> None:
    """List the tables of the stack's databases: rows, files, bytes, the latest change.

    Example: longhaul table list
    """


@app.command()
@on_target
def show(
    *,
    name: Annotated[
        str, typer.Argument(help="NAME in the stack's own database, or DATABASE.NAME.")
    ],
    limit: Annotated[int, typer.Option(min=1, max=MANY, help="At most this many changes.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a table: its columns, its partitions, and its latest changes with the jobs behind.

    Example: longhaul table show flights
    """


@app.command("query")
@on_target
def run_query(
    *,
    sql: Annotated[str, typer.Argument(metavar="SELECT", help="One SELECT, in DuckDB's SQL.")],
    limit: Annotated[int, typer.Option(min=1, max=MANY, help="At most this many rows.")] = 1_000,
    as_json: AsJson = False,
) -> None:
    """Query tables by their names; a table of another database is DATABASE.NAME.

    DuckDB runs the query on this machine and reads the files from S3 with your credentials: it
    sees what Athena or Spark would, at the latest snapshot.

    Example: longhaul table query "SELECT origin, count(*) FROM flights GROUP BY origin"
    """


@app.command("check")
@on_target
def check_bounds(
    *,
    name: Annotated[
        str, typer.Argument(help="NAME in the stack's own database, or DATABASE.NAME.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is wrong.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find files whose columns have wrong bounds, which hide rows from readers, and mend these.

    Earlier versions wrote too narrow ones for a column with a NaN. The command compares what the
    table says of each file with the file's footer, and commits right bounds. The data files stay.

    Example: longhaul table check flights

    Example: longhaul table check flights --dry-run
    """
