"""A query over tables, by DuckDB in this process, of rows that pyiceberg reads.

DuckDB's own reader of Iceberg leaves out rows where a query filters by a column: of files from
before the column was added, and of files from before the partitioning changed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.operations.tables import TableReader

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A list or a map of others, as Iceberg writes a type.
_NESTED: Final = re.compile(r"(list|map)<[^>]*<")

# Of a table's files. Unpacked they take about ten times as much, in this machine's memory.
_MOST_BYTES: Final = 2**30


@dataclass(frozen=True)
class Answer:
    columns: Sequence[str]
    rows: Sequence[tuple[str | None, ...]]  # each value as text; None for null
    left_out: Sequence[str]
    """Columns that no query sees, as TABLE.COLUMN."""


def query(reader: TableReader, text: str, limit: int, *, as_json: bool) -> Answer:
    """The first rows of one SELECT over the tables that it names: `flights` or `lake.flights`.

    `as_json`: one column, an object for each row. Decimals and large numbers keep all digits.

    Raises:
        CommandError: it is no SELECT, names an unknown table, or DuckDB cannot run it.
    """
    import duckdb  # noqa: PLC0415 - other commands do not need it

    left_out: list[str] = []
    # Without access to anything else: a query reads tables, and no extension is fetched for it.
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        try:
            select, names = _parsed(connection, text)
            connection.execute("SET TimeZone = 'UTC'")
            for name in reader.databases:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_identifier(name)}")
            for database, name in names:
                left_out += _bring(connection, reader, database, name)
            if reader.databases:
                connection.execute(f"SET schema = {_literal(reader.databases[0])}")
            # By a name that no column has: a column of that name would be taken for the row.
            row = f"row_{uuid4().hex}"
            shown = f"to_json({row})" if as_json else "COLUMNS(*)"
            done = connection.execute(
                f"SELECT {shown}::VARCHAR FROM ({select}) AS {row} LIMIT {limit}"  # noqa: S608 - one SELECT of the user's, as DuckDB wrote it again
            )
            columns = [column[0] for column in done.description or ()]
            return Answer(columns, done.fetchall(), left_out)
        except duckdb.CatalogException as error:
            why = str(error).partition("\n")[0]
            there = ", ".join(reader.names()) or "none yet"
            raise CommandError(
                f"the query cannot run: {why} Tables: {there}", ExitStatus.USAGE
            ) from error
        except duckdb.Error as error:
            raise CommandError(f"the query cannot run: {error}", ExitStatus.USAGE) from error


def _parsed(connection: "DuckDBPyConnection", text: str) -> tuple[str, Sequence[tuple[str, str]]]:
    """The query without comments, and database and name of each table that it reads.

    A database may be empty; names that the query's own WITH defines are among the tables.

    Raises:
        CommandError: it is not one SELECT.
    """
    ((parsed,),) = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
    tree = json.loads(parsed)
    if tree["error"] and tree["error_type"] == "parser":
        raise CommandError(f"the query cannot be read: {tree['error_message']}", ExitStatus.USAGE)
    if tree["error"] or len(tree["statements"]) != 1:
        raise CommandError("the query is not one SELECT: nothing was done", ExitStatus.USAGE)
    ((select,),) = connection.execute("SELECT json_deserialize_sql(?)", [parsed]).fetchall()
    return select, sorted(set(_names_in(tree)))


def _names_in(node: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - DuckDB's tree
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            yield node["schema_name"], node["table_name"]
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _names_in(each)


def _bring(
    connection: "DuckDBPyConnection", reader: TableReader, database: str, name: str
) -> Sequence[str]:
    """Let the query read the table by its name; returns the columns that it lacks.

    A name without a table may be one of the query's own; DuckDB says if it is none.

    Raises:
        CommandError: the table is too large, or cannot be read.
    """
    if database and database not in reader.databases:
        return ()
    table = reader.look(database, name)
    if table is None:
        return ()
    fields, entry = table.schema().fields, ".".join(table.name())
    # pyiceberg reads a null of such a type as an empty list.
    columns = [each.name for each in fields if not _NESTED.search(str(each.field_type))]
    scan = table.scan(selected_fields=tuple(columns))
    try:
        size = sum(task.file.file_size_in_bytes for task in scan.plan_files())
        if size > _MOST_BYTES:
            raise CommandError(
                f"{entry} has {size:,} bytes of files, and a query on this machine reads at most"
                f" {_MOST_BYTES:,}: query it with Athena, or by a job"
            )
        connection.register("rows of a table", scan.to_arrow_batch_reader())
    except (FileNotFoundError, NotImplementedError, ValueError) as error:
        raise CommandError(f"{entry} cannot be read: {error}") from error
    created = ".".join(map(_identifier, table.name()))
    connection.execute(f'CREATE TABLE {created} AS FROM "rows of a table"')
    connection.unregister("rows of a table")
    return [f"{entry}.{each.name}" for each in fields if each.name not in columns]


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
