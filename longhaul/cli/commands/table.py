"""`longhaul table`: list, show and query the tables that jobs wrote."""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.display.text import moment_text
from longhaul.cli.extras import require
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import MANY, AsJson
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from longhaul.cli.tables.reader import TableEntry, TableReader, Version
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
    from longhaul.cli.tables.reader import current

    out = Output(as_json=as_json)
    reader = _reader(target, "pyiceberg")
    tables = [(entry, current(reader.metadata(entry))) for entry in reader.all()]
    if as_json:
        for entry, version in tables:
            out.record({**_record(entry), "current": version and _version_record(version)})
        return
    out.table(COLUMNS, [_row(entry, version) for entry, version in tables])
    if not tables:
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
    from longhaul.cli.tables.reader import versions

    out = Output(as_json=as_json)
    reader = _reader(target, "pyiceberg")
    entry = reader.find(name)
    metadata = reader.metadata(entry)
    changes = versions(metadata)[-limit:]
    columns = [
        (each.name, str(each.field_type), each.required) for each in metadata.schema().fields
    ]
    if as_json:
        out.record(
            {
                **_record(entry),
                "location": metadata.location,
                "columns": [
                    {"name": column, "type": kind, "required": required}
                    for column, kind, required in columns
                ],
                "partition_by": _partitions(metadata),
                "changes": [_version_record(each) for each in changes],
            }
        )
        return
    out.fields(
        [
            ("table", str(entry)),
            ("location", metadata.location),
            ("metadata", entry.metadata_location),
            ("partitioned by", ", ".join(_partitions(metadata))),
        ]
    )
    out.line("")
    rows = [(column, kind, "not null" if required else "") for column, kind, required in columns]
    out.table(FIELD_COLUMNS, rows)
    out.line("")
    out.table(VERSION_COLUMNS, [_version_row(each) for each in changes])


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
    reader = _reader(target, "pyiceberg", "pyarrow", "duckdb")
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


def _reader(target: "Target", *modules: str) -> "TableReader":
    """`modules`: what the command imports of the extra; some of it comes with `[local]` too."""
    from longhaul.cli.tables.reader import TableReader

    require("tables", *modules)
    databases = target.settings.paths.table_databases
    return TableReader(target.client("glue"), target.client("s3"), databases)


def _row(entry: "TableEntry", version: "Version | None") -> tuple[str, ...]:
    if version is None:
        return (str(entry), "0", "0", "0", "", "")
    sizes = (version.rows, version.files, version.size)
    return (str(entry), *map(str, sizes), moment_text(version.at), version.job)


def _version_row(version: "Version") -> tuple[str, ...]:
    return (
        moment_text(version.at),
        version.operation,
        str(version.added_rows),
        str(version.rows),
        str(version.files),
        str(version.snapshot_id),
        version.job,
    )


def _record(entry: "TableEntry") -> Mapping[str, Any]:
    return {
        "database": entry.database,
        "name": entry.name,
        "metadata_location": entry.metadata_location,
    }


def _version_record(version: "Version") -> Mapping[str, Any]:
    from longhaul.operations.view import iso

    return {**vars(version), "at": iso(version.at)}


def _partitions(metadata: "TableMetadata") -> list[str]:
    schema = metadata.schema()
    spec = [
        (str(field.transform), schema.find_column_name(field.source_id))
        for field in metadata.spec().fields
    ]
    return [
        f"{column}" if transform == "identity" else f"{transform}({column})"
        for transform, column in spec
    ]


def _plain_json(record: str) -> str:
    """DuckDB's JSON as that of the other commands: in ASCII, and read by every parser.

    JSON has no NaN and no infinities. They become texts, as Spark writes them.
    """
    standard = _TEXT_OR_NO_NUMBER.sub(
        lambda match: match[0] if match[0].startswith('"') else f'"{match[0]}"', record
    )
    # Only texts have any.
    return re.sub(r"[^\x20-\x7e]", lambda match: json.dumps(match[0])[1:-1], standard)
