"""A query over tables, by DuckDB in this process, which reads their files from S3 itself.

DuckDB's extensions come as packages and are signed: nothing is fetched at the first query.
"""

import json
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.exceptions import NoCredentialsError

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.tables.reader import TableReader

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from longhaul.cli.target import Target

# In the order in which they need each other.
EXTENSIONS = ("avro", "httpfs", "iceberg")


@dataclass(frozen=True)
class Answer:
    columns: Sequence[str]
    rows: Sequence[tuple[str | None, ...]]  # each value as text; None for null


def query(target: "Target", reader: TableReader, text: str, limit: int, *, as_json: bool) -> Answer:
    """The first rows of one SELECT over the tables that it names: `flights` or `lake.flights`.

    `as_json`: one column, an object for each row. Decimals and large numbers keep all digits.

    Raises:
        CommandError: it is no SELECT, names an unknown table, or DuckDB cannot run it.
    """
    import duckdb  # noqa: PLC0415 - other commands do not need it

    with duckdb.connect() as connection:
        try:
            select, names = _parsed(connection, text)
            _load_extensions(connection)
            connection.execute("SET TimeZone = 'UTC'")
            _give_credentials(connection, target)
            for name in reader.databases:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_identifier(name)}")
            for database, name in names:
                _make_view(connection, reader, database, name)
            if reader.databases:
                connection.execute(f"SET schema = {_literal(reader.databases[0])}")
            shown = "to_json(answer)" if as_json else "COLUMNS(*)"
            done = connection.execute(
                f"SELECT {shown}::VARCHAR FROM ({select}) AS answer LIMIT {limit}"  # noqa: S608 - one SELECT of the user's, as DuckDB wrote it again
            )
            return Answer([column[0] for column in done.description or ()], done.fetchall())
        except duckdb.CatalogException as error:
            why = str(error).partition("\n")[0]
            there = ", ".join(map(str, reader.all())) or "none yet"
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


def _load_extensions(connection: "DuckDBPyConnection") -> None:
    folder = Path(sysconfig.get_path("platlib")) / "duckdb_ext" / "extensions"
    for name in EXTENSIONS:
        files = sorted(folder.glob(f"*/*/{name}.duckdb_extension"))
        if not files:
            raise CommandError(
                f"DuckDB's extension {name} is not installed: run `make setup`, which installs "
                "requirements.txt"
            )
        connection.execute(f"LOAD {_literal(str(files[-1]))}")


def _give_credentials(connection: "DuckDBPyConnection", target: "Target") -> None:
    """Those of the command, for this connection alone: DuckDB writes none of them down."""
    credentials = target.session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    keys = credentials.get_frozen_credentials()
    secret = {
        "KEY_ID": keys.access_key,
        "SECRET": keys.secret_key,
        "SESSION_TOKEN": keys.token,
        "REGION": target.region,
    }
    if target.place.endpoint:
        endpoint = urlsplit(target.place.endpoint)
        secret |= {"ENDPOINT": endpoint.netloc, "URL_STYLE": "path"}
        secret |= {"USE_SSL": "true" if endpoint.scheme == "https" else "false"}
    options = ", ".join(f"{name} {_literal(value)}" for name, value in secret.items() if value)
    connection.execute(f"CREATE SECRET (TYPE s3, {options})")


def _make_view(
    connection: "DuckDBPyConnection", reader: TableReader, database: str, name: str
) -> None:
    """Let the query read the table by its name.

    A name without a table may be one of the query's own; DuckDB says if it is none.
    """
    if database and database not in reader.databases:
        return
    entry = reader.look(database, name)
    if entry is not None:
        view = f"{_identifier(entry.database)}.{_identifier(entry.name)}"
        source = f"iceberg_scan({_literal(entry.metadata_location)})"
        connection.execute(f"CREATE VIEW {view} AS FROM {source}")


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
