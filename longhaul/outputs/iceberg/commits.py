"""Makes an attempt's files part of their tables, repeatably and by anyone.

    load ─► published? ─► may it? ─► manifests, metadata ─► UpdateTable iff the version is the one
     ▲          └ done       └ void or replaced                │  that was loaded
     └──────────────── look again, delete nothing ◄── changed ─┘

The files are complete by then; what no commit names is invisible. What became of an UpdateTable
whose answer was lost, the next look tells: the token of the attempt is in the snapshot. So nothing
that a try wrote is deleted, or a table could name what is gone. A try in vain leaves a manifest.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertCreate, AssertTableUUID
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record

from longhaul.core.aws_errors import retrying
from longhaul.core.errors import (
    ContendedError,
    TimeUpError,
    TornOutputError,
    VoidCommitError,
)
from longhaul.core.lease import AttemptId
from longhaul.core.ports import Clock
from longhaul.outputs.contention import conflict_wait_s
from longhaul.outputs.iceberg.catalog import FORMAT_VERSION, OccupiedError, Tables, partition_of
from longhaul.outputs.iceberg.columns import evolve, require_same_ids
from longhaul.outputs.iceberg.history import (
    BASE,
    MODE,
    PUBLISHED,
    TOKEN,
    ReplacedError,
    added_before,
    is_published,
    manifests_of,
    place_of,
    to_replace,
)
from longhaul.outputs.lineage import JOB
from longhaul.outputs.manifest import PendingTable, Switch, TableFile
from longhaul.outputs.partitions import PartitionBy

# A publication is repeated until it is struck off, by the sweeper at the latest.
_PUBLISHED_KEPT = 1_000
TRIES = 60

logger = logging.getLogger(__name__)


class TablePublisher:
    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    def switch(self, token: str, pending: Sequence[PendingTable]) -> Switch:
        """What is left to do. REPLACED: an overwrite came first in all tables, so none has it.

        Raises:
            VoidCommitError: one of them can never have it, and none has it yet.
            TornOutputError: the same, and another has it.
        """
        due, replaced = self._due(token, pending)
        if due:
            return Switch.DUE
        return Switch.REPLACED if replaced == len(pending) else Switch.DONE

    def has_begun(self, token: str, pending: Sequence[PendingTable]) -> bool:
        """Whether one of them has it."""
        return any(self._has(token, each) for each in pending)

    def _has(self, token: str, pending: PendingTable) -> bool:
        try:
            table = self._tables.find(pending.path)
        except OccupiedError:
            return False  # others have put something else in its place
        return table is not None and is_published(table, token)

    def publish(
        self,
        attempt: AttemptId,
        pending: Sequence[PendingTable],
        until: datetime | None,
        marks: Mapping[str, str],
    ) -> None:
        """Make the files of the attempt part of each table; repeatable.

        `marks` are further properties of the summaries of their snapshots.

        Raises:
            TimeUpError: it was not done `until` then.
            VoidCommitError, TornOutputError: as `switch`.
        """
        due, _ = self._due(attempt.token, pending)
        for each in due:
            try:
                self._commit(attempt, each, until, marks)
            except OccupiedError as error:
                raise self._never(attempt.token, pending, each, error) from error

    def _due(self, token: str, pending: Sequence[PendingTable]) -> tuple[list[PendingTable], int]:
        """The tables that lack their part and may have it; the number of those replaced."""
        due, replaced = [], 0
        for each in pending:
            try:
                table, is_due = self._look(token, each)
                if is_due:
                    TableChange(self._tables, table, each, token).check()
                    due.append(each)
            except ReplacedError:
                logger.warning("another run has replaced the output of %s", token)
                replaced += 1
            except OccupiedError as error:
                raise self._never(token, pending, each, error) from error
        return due, replaced

    def _look(self, token: str, pending: PendingTable) -> tuple[Table | None, bool]:
        """The table, and whether it lacks its part.

        One that has it needs nothing more: what others have made of it since, such as another
        format, does not make the output void.

        Raises:
            OccupiedError: it lacks its part, and cannot have it.
        """
        table = self._tables.find(pending.path)
        if table is not None:
            if is_published(table, token):
                return table, False
            self._tables.require_writable(pending.path, table)
        return table, True

    def _never(
        self,
        token: str,
        pending: Sequence[PendingTable],
        which: PendingTable,
        error: OccupiedError,
    ) -> Exception:
        for other in pending:
            if other is not which and self._has(token, other):
                return TornOutputError(
                    f"{other.path} is published, and {which.path} can not be: {error}"
                )
        return VoidCommitError(f"{which.path}: {error}")

    def _commit(
        self,
        attempt: AttemptId,
        pending: PendingTable,
        until: datetime | None,
        marks: Mapping[str, str],
    ) -> None:
        token = attempt.token
        for _ in retrying(TRIES, self._clock.sleep, partial(conflict_wait_s, token)):
            if until is not None and self._clock.now() >= until:
                raise TimeUpError(f"{pending.path} kept changing")
            table, is_due = self._look(token, pending)
            if not is_due:
                return
            try:
                TableChange(self._tables, table, pending, token).commit(attempt, marks)
            except ReplacedError:
                logger.warning("another run has replaced the output of %s", token)
                return
            except (CommitFailedException, TableAlreadyExistsError) as error:
                # Also when the commit was this one, and its answer was lost.
                logger.info("a commit in vain", extra={"error": type(error).__name__})
            else:
                return
        raise ContendedError(f"{pending.path} changed under each of {TRIES} tries")


@dataclass
class TableChange:
    """What the publication of an attempt does to its table, as that is now; None: it creates it."""

    tables: Tables
    table: Table | None
    pending: PendingTable
    token: str

    def check(self) -> None:
        """Raises OccupiedError or ReplacedError if it must not be done."""
        self._begin_transaction()

    def commit(self, attempt: AttemptId, marks: Mapping[str, str]) -> None:
        """Try once.

        Raises:
            OccupiedError, ReplacedError: it must not be done.
            CommitFailedException, TableAlreadyExistsError: it may have been done.
        """
        transaction, files, doomed = self._begin_transaction()
        metadata = transaction.table_metadata
        summary = {**marks, TOKEN: self.token, JOB: attempt.key, MODE: self.pending.mode}
        snapshot = (
            _OverwriteFiles(
                Operation.OVERWRITE, transaction, self.table.io, snapshot_properties=summary
            )
            if self.table is not None and doomed
            else transaction.update_snapshot(snapshot_properties=summary).fast_append()
        )
        with snapshot:
            for file in doomed:
                snapshot.delete_data_file(file)
            for file in files:
                snapshot.append_data_file(file)
        published = metadata.properties.get(PUBLISHED, "").split()
        properties = {PUBLISHED: " ".join([*published, self.token][-_PUBLISHED_KEPT:])}
        if self.pending.mode == "overwrite":
            properties[BASE] = self.token
        transaction.set_properties(properties)
        commit_once(self.tables, self.table, transaction)

    def _begin_transaction(self) -> tuple[Transaction, list[DataFile], set[DataFile]]:
        """A transaction with the table's columns, the files to add and those to remove."""
        written = Schema.model_validate_json(self.pending.columns)
        if self.table is None:
            transaction: Transaction = self.tables.catalog.create_table_transaction(
                (self.pending.database, self.pending.name),
                written,
                self.pending.location,
                _spec(written, self.pending),
                properties={"format-version": str(FORMAT_VERSION)},
            )
        else:
            if (there := partition_of(self.table)) != self.pending.partition_by:
                raise OccupiedError(
                    f"the table is partitioned by {', '.join(map(str, there)) or 'nothing'}, the"
                    f" output by {', '.join(map(str, self.pending.partition_by)) or 'nothing'}"
                )
            transaction = self.table.transaction()
            evolve(transaction, written, self._without_null(written))
        metadata = transaction.table_metadata
        require_same_ids(written, metadata.schema())
        files = [
            _data_file(self.pending, file, written, metadata.schema(), metadata.spec())
            for file in self.pending.files
        ]
        doomed = self._doomed(files)
        if self.table is not None and doomed:
            _require_partition_columns(self.table, metadata.schema())
        return transaction, files, doomed

    def _without_null(self, written: Schema) -> set[str]:
        return {
            column.name
            for column in written.fields
            if all(
                column.field_id in file.columns and file.columns[column.field_id].nulls == 0
                for file in self.pending.files
            )
        }

    def _doomed(self, files: Sequence[DataFile]) -> set[DataFile]:
        if self.table is None or self.table.current_snapshot() is None:
            return set()
        since = self.pending.replaces_snapshot
        match self.pending.mode:
            case "append":
                return added_before(self.table, self.token) if self.pending.again else set()
            case "error":
                raise OccupiedError("it holds another output")
            case "overwrite":
                if self.table.metadata.properties.get(BASE) != self.pending.replaces_base:
                    raise ReplacedError
                return to_replace(self.table, since, None)
            case _:
                return to_replace(self.table, since, {place_of(file) for file in files})


def _require_partition_columns(table: Table, schema: Schema) -> None:
    """Raises OccupiedError unless files can be replaced.

    pyiceberg looks into each manifest with files, by the types of its partitions.
    """
    specs = table.specs()
    used = {
        each.partition_spec_id
        for each in manifests_of(table, table.current_snapshot())
        if each.has_added_files() or each.has_existing_files()
    }
    columns = {field.source_id for each in used for field in specs[each].fields}
    if not columns <= {*schema.field_ids}:
        raise OccupiedError(
            "some of its files are partitioned by a column that was dropped, so none can be"
            " replaced: write to another table"
        )


def commit_once(tables: Tables, table: Table | None, transaction: Transaction) -> None:
    """One try by our own rules, on the table as it was loaded; None: it is created.

    pyiceberg's would go on without looking for the token, and delete manifests of a commit whose
    answer was lost.

    Raises:
        CommitFailedException, TableAlreadyExistsError: it may have been done.
    """
    required: Any = (
        (AssertCreate(),)
        if table is None
        else (
            *transaction._requirements,  # noqa: SLF001 - covered by the contract test
            AssertTableUUID(uuid=table.metadata.table_uuid),
        )
    )
    tables.catalog.commit_table(
        transaction._table,  # noqa: SLF001 - as above
        required,
        transaction._updates,  # noqa: SLF001 - as above
    )


def _data_file(
    pending: PendingTable, file: TableFile, written: Schema, schema: Schema, spec: PartitionSpec
) -> DataFile:
    """The entry of a manifest, with bounds in the types that the table has now."""
    keys = (
        *("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"),
        *("lower_bounds", "upper_bounds"),
    )
    found: dict[str, Any] = {key: {} for key in keys}
    for column_id, column in file.columns.items():
        ours = written.find_field(column_id).field_type
        theirs = schema.find_field(column_id).field_type
        bounds = [
            to_bytes(theirs, from_bytes(ours, bound))  # type: ignore[arg-type]
            if bound is not None and ours != theirs
            else bound
            for bound in (column.lower, column.upper)
        ]
        values = (column.size, column.values, column.nulls, column.nans, *bounds)
        for key, value in zip(keys, values, strict=True):
            if value is not None:
                found[key][column_id] = value
    partition = []
    for field, raw in zip(spec.fields, file.partition, strict=True):
        type_ = field.transform.result_type(written.find_field(field.source_id).field_type)
        partition.append(None if raw is None else from_bytes(type_, raw))  # type: ignore[arg-type]
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{pending.location}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        split_offsets=list(file.split_offsets),
        **found,
    )
    made.spec_id = spec.spec_id  # no argument: a manifest's header has it, and no entry of one
    return made


def _spec(schema: Schema, pending: PendingTable) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(by.column).field_id,
                field_id=PARTITION_FIELD_ID_START + n,
                transform=parse_transform(by.transform),
                name=_partition_name(by, schema),
            )
            for n, by in enumerate(pending.partition_by)
        )
    )


def _partition_name(by: PartitionBy, schema: Schema) -> str:
    """As Spark names it, unless a column has that name, which Iceberg forbids."""
    if by.transform == "identity":
        return by.column
    name = f"{by.column}_{by.transform}"
    while name in schema.column_names:
        name += "_"
    return name
