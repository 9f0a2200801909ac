"""The tables that jobs may write, read back: from the Glue catalog and Iceberg's metadata files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of
from longhaul.adapters.objects import json_of
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.domain.footprint import MAX_BYTES
from longhaul.domain.paths import DataPath
from longhaul.domain.provenance import JOB
from longhaul.domain.tables import SCHEME

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

NOT_FOUND = "EntityNotFoundException"


@dataclass(frozen=True)
class TableEntry:
    """A table as the catalog has it: its name, and the file that says what it is now."""

    database: str
    name: str
    metadata_location: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True)
class Version:
    """What one commit made of a table."""

    snapshot_id: int
    at: datetime
    operation: str
    output: str  # the attempt whose output it is; empty where Longhaul did not make it
    job: str  # its job; empty where Longhaul did not make it
    added_rows: int
    rows: int
    files: int
    size: int  # bytes of all data files

    @classmethod
    def of(cls, snapshot: "Snapshot") -> "Version":
        summary = snapshot.summary
        properties = summary.additional_properties if summary else {}
        return cls(
            snapshot_id=snapshot.snapshot_id,
            at=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
            operation=summary.operation.value if summary else "",
            output=properties.get("longhaul.token", ""),
            job=properties.get(JOB, "").partition("#")[2],
            added_rows=int(properties.get("added-records", 0)),
            rows=int(properties.get("total-records", 0)),
            files=int(properties.get("total-data-files", 0)),
            size=int(properties.get("total-files-size", 0)),
        )


class TableReader:
    def __init__(self, glue: Any, s3: Any, databases: Sequence[str]) -> None:  # noqa: ANN401 - boto3's clients
        """`databases`: those of the stack, its own first."""
        self._glue = glue
        self._s3 = s3
        self.databases = databases

    def all(self) -> Iterator[TableEntry]:
        """The Iceberg tables of all databases; others are skipped.

        Raises:
            CommandError: a database is not there.
        """
        if not self.databases:
            raise CommandError("this stack has no databases for tables: deploy this version of it")
        for database in self.databases:
            try:
                pages = self._glue.get_paginator("get_tables").paginate(DatabaseName=database)
                tables = [each for page in pages for each in page["TableList"]]
            except ClientError as error:
                raise _no_database(error, database) from error
            yield from sorted(filter(None, map(_entry, tables)), key=str)

    def find(self, text: str) -> TableEntry:
        """The table of that name: `flights`, `lake.flights` or `table://lake/flights`.

        Raises:
            CommandError: there is none, or it is no Iceberg table.
        """
        database, _, name = text.removeprefix(SCHEME).replace("/", ".").rpartition(".")
        metadata = self.look(database, name)
        if metadata is None:
            there = ", ".join(map(str, self.all())) or "no table yet"
            raise CommandError(f"no table {text}; there is: {there}", ExitStatus.NOT_FOUND)
        return metadata

    def look(self, database: str, name: str) -> TableEntry | None:
        """The table; None where there is none. Without a database it is one of the stack's own.

        Raises:
            CommandError: it is no Iceberg table, or in another database.
        """
        database = database or next(iter(self.databases), "")
        if database not in self.databases:
            raise CommandError(
                f"{database} is no database of this stack; it has: {', '.join(self.databases)}",
                ExitStatus.NOT_FOUND,
            )
        try:
            table = self._glue.get_table(DatabaseName=database, Name=name)["Table"]
        except ClientError as error:
            if code_of(error) != NOT_FOUND:
                raise
            return None
        entry = _entry(table)
        if entry is None:
            raise CommandError(f"{database}.{name} is no Iceberg table")
        return entry

    def metadata(self, entry: TableEntry) -> "TableMetadata":
        """What the table is now.

        Raises:
            CommandError: the file is not there, or cannot be read.
        """
        # It takes a third of a second, which other commands should not.
        from pyiceberg.table.metadata import TableMetadataUtil  # noqa: PLC0415

        path = DataPath.on_s3(entry.metadata_location)
        try:
            body = json_of(self._s3.get_object(Bucket=path.bucket, Key=path.key), MAX_BYTES)
            if body is None:
                raise CommandError(f"{entry}: its metadata is too large to be read: {path}")
            return TableMetadataUtil.parse_raw(body.decode())
        except ClientError as error:
            if code_of(error) != "NoSuchKey":
                raise
            raise CommandError(f"{entry}: its metadata is gone: {path}") from error
        except ValueError as error:
            raise CommandError(f"{entry}: its metadata cannot be read: {path}") from error

    def table(self, entry: TableEntry) -> "Table":
        """The table as it is now, to read its rows.

        Raises:
            CommandError: as `metadata`.
        """
        from pyiceberg.catalog.noop import NoopCatalog  # noqa: PLC0415 - as above
        from pyiceberg.table import StaticTable  # noqa: PLC0415 - as above

        from longhaul.adapters.iceberg.file_io import BotoFileIO  # noqa: PLC0415 - as above

        return StaticTable(
            (entry.database, entry.name),
            self.metadata(entry),
            entry.metadata_location,
            BotoFileIO(self._s3, is_bounded=False),
            NoopCatalog("read"),
        )


def versions(metadata: "TableMetadata") -> list[Version]:
    """The newest last. Those that expired are not known any more."""
    all_versions = [Version.of(each) for each in metadata.snapshots]
    return sorted(all_versions, key=lambda version: version.at)


def current(metadata: "TableMetadata") -> Version | None:
    """What the table holds now; None where nothing was ever added."""
    snapshot = metadata.snapshot_by_id(metadata.current_snapshot_id or -1)
    return Version.of(snapshot) if snapshot else None


def _entry(table: dict[str, Any]) -> TableEntry | None:
    parameters = table.get("Parameters") or {}
    if (
        parameters.get("table_type", "").upper() != "ICEBERG"
        or "metadata_location" not in parameters
    ):
        return None
    return TableEntry(table["DatabaseName"], table["Name"], parameters["metadata_location"])


def _no_database(error: ClientError, name: str) -> Exception:
    if code_of(error) != NOT_FOUND:
        return error
    return CommandError(
        f"there is no Glue database {name}: deploy the stack, or make the one that table_databases "
        "names",
        ExitStatus.NOT_FOUND,
    )
