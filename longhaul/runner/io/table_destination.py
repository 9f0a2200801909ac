"""Tables as the destination of an output: each dataset becomes part of one."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId
from longhaul.core.places import TABLES_PREFIX, TableInput, TablePath, data_folder
from longhaul.core.settings import Mode
from longhaul.outputs.iceberg.catalog import OccupiedError, Tables, partition_of
from longhaul.outputs.iceberg.columns import evolve, with_ids
from longhaul.outputs.iceberg.commits import TableChange
from longhaul.outputs.iceberg.history import BASE, ChangedError, ReplacedError, require_one_spec
from longhaul.outputs.manifest import MAIN, MAX_STATISTICS, PendingOutput, PendingTable
from longhaul.outputs.partitions import PartitionBy
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.table_files import columns_of, describe, require_partitions
from longhaul.runner.io.transfer import InputChangingError
from longhaul.runner.io.uploader import UploadPlan
from longhaul.runner.io.written import Dataset, LocalFile, TableLayout
from longhaul.saved.record import TableRead


class TableDestination:
    """`longhaul.runner.io.destinations.Destination`, as that of prefixes."""

    def __init__(
        self,
        tables: Tables,
        path: TablePath,
        mode: Mode,
        attempt: AttemptId,
        require_writable: Callable[[str], None],
        reads: Collection[TableInput] = (),
        *,
        again: bool = False,
    ) -> None:
        """Nothing is looked at before a method is called.

        Args:
            tables: the catalogue.
            path: of the main dataset's table.
            mode: what becomes of the rows that are there.
            attempt: whose output it is.
            require_writable: raises ValueError for a place that the job may not write to.
            reads: the job's inputs that are tables.
            again: whether an earlier run of the job may have added rows.
        """
        self._require_writable = require_writable
        self._tables = tables
        self._path = path
        self._mode = mode
        self._attempt = attempt
        self._reads = reads
        self._again = again

    @property
    def table(self) -> "TableDestination":
        return self

    def require_room(self) -> None:
        if not self._tables.has_database(self._path):
            raise PermanentJobError(f"output: there is no database {self._path.database}")
        table = self._load(self._path)
        if self._mode == "error" and table is not None and table.current_snapshot() is not None:
            raise PermanentJobError(
                f"output: mode is error, and {self._path} holds an output: name another table, or"
                " replace it or add to it (modes overwrite, overwrite_partitions and append)"
            )
        if self._mode == "overwrite_partitions" and table is not None:
            with _refused_for_good(f"output: {self._path}"):
                require_one_spec(table, table.current_snapshot())

    def layout(
        self, dataset: str, schema: dict[str, Any], partition_by: Sequence[str]
    ) -> TableLayout:
        """How a dataset's rows are split. A table that is there decides; a new one is as asked.

        Raises:
            PermanentJobError: the table is partitioned in another way, cannot hold a column, or is
                not where the job may write; or rows of it that the job did not read would be
                replaced.
        """
        path = self._path_of(dataset)
        self._require_whole(path)
        table = self._load(path)
        asked = tuple(map(PartitionBy.parse, partition_by))
        with _refused_for_good("output"):
            by = asked if table is None else partition_of(table)
        if asked and asked != by:
            raise PermanentJobError(
                f"output: {path} is partitioned by {_partitions_text(by)}, and the job asks for"
                f" {_partitions_text(asked)}"
            )
        require_partitions(by, columns_of(schema))
        required = table.schema().fields if table else ()
        return TableLayout(
            json.dumps(schema), by, tuple(field.name for field in required if field.required)
        )

    def plan(self, datasets: Sequence[Dataset], read: InputListing) -> UploadPlan:
        files: list[LocalFile] = []
        tables: list[PendingTable] = []
        for name in dict.fromkeys(each.name for each in datasets):
            parts = [each for each in datasets if each.name == name]
            found, table = self._described(name, parts, read)
            files += found
            tables.append(table)
        _require_few(tables)
        pending = PendingOutput(
            version=2,
            token=self._attempt.token,
            prefix=f"s3://{self._tables.bucket}/{TABLES_PREFIX}{self._path.database}/",
            mode=self._mode,
            is_of_tables=True,
            tables=tuple(tables),
        )
        return UploadPlan(self._attempt, str(self._path), pending, files, datasets)

    def _described(
        self, name: str, parts: Sequence[Dataset], read: InputListing
    ) -> tuple[list[LocalFile], PendingTable]:
        """The files of a dataset's parts, which have the same columns, and their entries."""
        found: list[Path] = []
        for each in parts:
            if each.layout is None or not isinstance(each.folder, Path):
                raise PermanentJobError(
                    "output: a table takes what job.write writes; name a prefix (s3://…) for files"
                )
            layout = each.layout
            found += sorted(each.folder.rglob("*.parquet"))
        path, by = self._path_of(name), layout.partition_by
        table = self._load(path)
        written = columns_of(json.loads(layout.schema))
        columns = written if table is None else self._numbered(table, written)
        without_null = frozenset.intersection(*(each.without_null for each in parts))
        described = describe(found, columns, by, data_folder(self._attempt.token), without_null)
        # What the job has read it replaces, and nothing that came since.
        replaced = read.versions.get(path) or version_of(table)
        pending = PendingTable(
            database=path.database,
            name=path.name,
            location=path.location(self._tables.bucket),
            mode=self._mode,
            columns=columns.model_dump_json(),
            partition_by=by,
            replaces_snapshot=replaced.snapshot,
            replaces_base=replaced.base,
            again=self._again,
            files=tuple(entry for _, entry in described),
        )
        try:
            # As the publisher will, so that a conflict is found before the commit.
            TableChange(self._tables, table, pending, self._attempt.token).check()
        except ReplacedError:
            pass  # by an overwrite that began later and came first: the publisher says so
        except ChangedError as error:
            raise InputChangingError(f"output: {path}: {error}") from error
        except OccupiedError as error:
            raise PermanentJobError(f"output: {path}: {error}") from error
        files = [
            LocalFile(f"{path.name}/{entry.path}", name, entry.size, file)
            for file, entry in described
        ]
        return files, pending

    def _require_whole(self, path: TablePath) -> None:
        read = [each for each in self._reads if each.table == path]
        if (
            self._mode == "overwrite"
            and any(each.where for each in read)
            and TableInput(path) not in read
        ):
            raise PermanentJobError(
                f"output: mode overwrite replaces all rows of {path}, also those that the filter of"
                " the job's input leaves out: use mode overwrite_partitions, or read the table"
                " without a filter"
            )

    def _numbered(self, table: Table, written: Schema) -> Schema:
        """The written columns with the field ids that the table has, or would give them."""
        transaction = table.transaction()
        with _refused_for_good(f"output: {'.'.join(table.name())}"):
            # Whether they hold nulls is known when their files are described.
            evolve(transaction, written, {column.name for column in written.fields})
        return with_ids(written, transaction.table_metadata.schema())

    def _load(self, path: TablePath) -> Table | None:
        with _refused_for_good("output"):
            return self._tables.load(path)

    def _path_of(self, dataset: str) -> TablePath:
        if dataset == MAIN:
            return self._path
        path = self._path.of_dataset(dataset)
        try:
            self._require_writable(f"{path.location(self._tables.bucket)}/")
        except ValueError as error:
            raise PermanentJobError(f"output: {path}: {error}") from error
        return path


@contextmanager
def _refused_for_good(what: str) -> Iterator[None]:
    """What the table cannot hold it will not hold at the next attempt either."""
    try:
        yield
    except OccupiedError as error:
        raise PermanentJobError(f"{what}: {error}") from error


def version_of(table: Table | None) -> TableRead:
    """The table as it is now."""
    if table is None:
        return TableRead(snapshot=None, schema_id=0, base=None)
    snapshot = table.current_snapshot()
    return TableRead(
        snapshot=snapshot.snapshot_id if snapshot else None,
        schema_id=table.metadata.current_schema_id,
        base=table.metadata.properties.get(BASE),
    )


def _require_few(tables: Sequence[PendingTable]) -> None:
    names = [table.name for table in tables]
    for name in names:
        if names.count(name) > 1:
            raise PermanentJobError(f"output: several datasets would become the table {name}")
    count = sum(len(file.columns) for table in tables for file in table.files)
    if count > MAX_STATISTICS:
        raise PermanentJobError(
            f"output: {count:,} columns of files are more than one output may have"
            f" ({MAX_STATISTICS:,}): write fewer and larger files (coalesce)"
        )


def _partitions_text(partition_by: Sequence[PartitionBy]) -> str:
    return ", ".join(map(str, partition_by)) or "nothing"
