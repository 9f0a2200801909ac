"""`longhaul table`: list, show and query the tables that jobs wrote."""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.display.text import moment_text
from longhaul.cli.extras import tables_of
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import MANY, AsJson
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from longhaul.cli.target import Target


COLUMNS = ("TABLE", "ROWS", "FILES", "BYTES", "CHANGED", "BY")

VERSION_COLUMNS = ("CHANGED", "OPERATION", "ADDED", "ROWS", "FILES", "SNAPSHOT", "BY")

FIELD_COLUMNS = ("COLUMN", "TYPE", "")

_TEXT_OR_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')


app = typer.Typer(
    no_args_is_help=True,
    help="Tables: what jobs wrote with an output `table://DATABASE/NAME`.",
)


@app.command("list")
@on_target
def list_tables(target: "Target", *, as_json: AsJson = False) -> None:
    """List the tables of the stack's databases: rows, files, bytes, the latest change.

    Example: longhaul table list
    """
    out = Output(as_json=as_json)
    reader, rows = tables_of(target, "pyiceberg"), []
    for table, now in reader.all():
        if as_json:
            out.record({**_record(table), "current": _jsonable(now) if now else None})
        sizes = [str(now.get(each, 0)) for each in ("rows", "files", "size")]
        rows.append(
            [".".join(table.name()), *sizes, moment_text(now.get("at")), now.get("job", "")]
        )
    if not as_json:
        out.table(COLUMNS, rows)
    if not rows:
        out.note(
            f"no tables in {', '.join(reader.databases)}: a job writes one with the output "
            f"table://{reader.databases[0]}/NAME"
        )


@app.command()
@on_target
def show(
    target: "Target",
    *,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="NAME in the stack's own database, or DATABASE.NAME."),
    ],
    limit: Annotated[int, typer.Option(min=1, max=MANY, help="At most this many changes.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a table: its columns, its partitions, and its latest changes with the jobs behind.

    Example: longhaul table show flights
    """
    from longhaul.operations.tables import partitions_of, version_of

    out = Output(as_json=as_json)
    table = tables_of(target, "pyiceberg").find(name)
    snapshots = sorted(table.snapshots(), key=lambda each: each.timestamp_ms)
    changes = [version_of(each) for each in snapshots[-limit:]]
    columns = [(each.name, str(each.field_type), each.required) for each in table.schema().fields]
    if as_json:
        names = ("name", "type", "required")
        out.record(
            {
                **_record(table),
                "location": table.location(),
                "columns": [dict(zip(names, each, strict=True)) for each in columns],
                "partition_by": partitions_of(table),
                "changes": [_jsonable(each) for each in changes],
            }
        )
        return
    out.fields(
        [
            ("table", ".".join(table.name())),
            ("location", table.location()),
            ("metadata", table.metadata_location),
            ("partitioned by", ", ".join(partitions_of(table))),
        ]
    )
    out.line("")
    rows = [(column, kind, "not null" if required else "") for column, kind, required in columns]
    out.table(FIELD_COLUMNS, rows)
    out.line("")
    shown = ("operation", "added_rows", "rows", "files", "snapshot_id", "job")
    out.table(
        VERSION_COLUMNS,
        [[moment_text(each["at"]), *(str(each[name]) for name in shown)] for each in changes],
    )


@app.command("query")
@on_target
def run_query(
    target: "Target",
    *,
    sql: Annotated[str, typer.Argument(metavar="SELECT", help="One SELECT, in DuckDB's SQL.")],
    limit: Annotated[int, typer.Option(min=1, max=MANY, help="At most this many rows.")] = 1_000,
    as_json: AsJson = False,
) -> None:
    """Query tables by their names; a table of another database is DATABASE.NAME.

    The tables are read whole, at their latest snapshots, and DuckDB runs the query on this machine:
    it is for a look at thousands of rows. docs/outputs.md#read-a-table has what large ones need.

    Example: longhaul table query "SELECT origin, count(*) FROM flights GROUP BY origin"
    """
    from longhaul.cli.tables.query import query

    out = Output(as_json=as_json)
    # One more than is shown, to say that there are more.
    reader = tables_of(target, "pyiceberg", "pyarrow", "duckdb")
    answer = query(reader, sql, limit + 1, as_json=as_json)
    rows = [["" if each is None else each for each in row] for row in answer.rows[:limit]]
    if as_json:
        for (record,) in rows:
            out.write(_plain_json(record))
    else:
        out.table(answer.columns, rows)
    if len(answer.rows) > limit:
        out.note("there are more rows: raise --limit")
    if answer.left_out:
        out.note(f"not read: {', '.join(answer.left_out)} (lists and maps of others)")


def _record(table: "Table") -> Mapping[str, Any]:
    database, name = table.name()
    return {"database": database, "name": name, "metadata_location": table.metadata_location}


def _jsonable(version: Mapping[str, Any]) -> Mapping[str, Any]:
    from longhaul.operations.view import iso

    return {**version, "at": iso(version["at"])}


def _plain_json(record: str) -> str:
    """DuckDB's JSON as that of the other commands: in ASCII, and read by every parser.

    JSON has no NaN and no infinities. They become texts, as Spark writes them.
    """
    standard = _TEXT_OR_NO_NUMBER.sub(
        lambda match: match[0] if match[0].startswith('"') else f'"{match[0]}"', record
    )
    # Only texts have any.
    return re.sub(r"[^\x20-\x7e]", lambda match: json.dumps(match[0])[1:-1], standard)
