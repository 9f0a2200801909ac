"""The tables that jobs may write, read back from the Glue catalog. Needs pyiceberg."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from longhaul.core.places import SCHEME, TablePath
from longhaul.operations.errors import NoSuchTableError
from longhaul.outputs.iceberg.catalog import OccupiedError, Tables, partition_fields
from longhaul.outputs.iceberg.history import TOKEN, summary_of
from longhaul.outputs.lineage import JOB

if TYPE_CHECKING:
    from longhaul.operations.stack import Stack


class TableReader:
    def __init__(self, glue: Any, s3: Any, databases: Sequence[str]) -> None:  # noqa: ANN401 - boto3's clients
        """`databases`: those of the stack, its own first."""
        self._tables = Tables(lambda: glue, s3, "", is_bounded=False)
        self.databases = databases

    def names(self) -> Iterator[str]:
        """The Iceberg tables of all databases; others are skipped.

        Raises:
            NoSuchTableError: a database is not there.
        """
        for database in self.databases:
            try:
                tables = self._tables.catalog.list_tables(database)
            except NoSuchNamespaceError as error:
                raise NoSuchTableError(
                    f"there is no Glue database {database}: deploy the stack, or make the one that "
                    "table_databases names"
                ) from error
            yield from sorted(".".join(each) for each in tables)

    def all(self) -> Iterator[tuple[Table, Mapping[str, Any]]]:
        """The tables, each with what it holds now; nothing where no job has written to it."""
        for name in self.names():
            table = self.find(name)
            snapshot = table.current_snapshot()
            yield table, version_of(snapshot) if snapshot else {}

    def find(self, text: str) -> Table:
        """The table of that name: `flights`, `lake.flights` or `table://lake/flights`.

        Raises:
            NoSuchTableError: there is none, or it is no Iceberg table.
        """
        database, _, name = text.removeprefix(SCHEME).replace("/", ".").rpartition(".")
        table = self.look(database, name)
        if table is None:
            there = ", ".join(self.names()) or "no table yet"
            raise NoSuchTableError(f"no table {text}; there is: {there}")
        return table

    def look(self, database: str, name: str) -> Table | None:
        """The table; None where there is none. Without a database it is one of the stack's own.

        Raises:
            NoSuchTableError: it is no Iceberg table, or in another database.
        """
        database = database or next(iter(self.databases), "")
        if database not in self.databases:
            raise NoSuchTableError(
                f"{database} is no database of this stack; it has: {', '.join(self.databases)}"
            )
        try:
            return self._tables.find(TablePath(database, name))
        except OccupiedError as error:
            raise NoSuchTableError(str(error)) from error


def reader_of(stack: "Stack") -> TableReader:
    """The tables of a stack."""
    glue, s3 = stack.client("glue"), stack.client("s3")
    return TableReader(glue, s3, stack.settings.paths.table_databases)


def version_of(snapshot: Snapshot) -> Mapping[str, Any]:
    """What one commit made of a table; `output` and `job` are empty where it was not ours."""
    said = summary_of(snapshot)
    operation = snapshot.summary.operation.value if snapshot.summary else ""
    return {
        "snapshot_id": snapshot.snapshot_id,
        "at": datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
        "operation": operation,
        "output": said.get(TOKEN, ""),
        "job": said.get(JOB, "").partition("#")[2],
        "added_rows": int(said.get("added-records", 0)),
        "rows": int(said.get("total-records", 0)),
        "files": int(said.get("total-data-files", 0)),
        "size": int(said.get("total-files-size", 0)),
    }


def partitions_of(table: Table) -> list[str]:
    """Such as `origin` and `day(at)`."""
    return [
        f"{column}" if transform == "identity" else f"{transform}({column})"
        for column, transform in partition_fields(table)
    ]
