"""`longhaul table`: list, show and query the tables that jobs wrote."""

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

    The tables are read whole, at their latest snapshots, and DuckDB runs the query on this machine.

    Example: longhaul table query "SELECT origin, count(*) FROM flights GROUP BY origin"
    """
