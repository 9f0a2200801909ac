"""The bounds of columns that a table's manifests have, checked against its files' footers.

A reader leaves out a file whose bounds say that no row matches. Bounds that are narrower than the
file's values hide rows from every reader, without an error.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.types import BooleanType, IcebergType, ListType, MapType, NestedField, StructType

from longhaul.adapters.errors import code_of
from longhaul.adapters.iceberg.catalog import OccupiedError, Tables
from longhaul.adapters.iceberg.commits import TRIES, commit_once, conflict_wait_s
from longhaul.adapters.iceberg.footers import statistics_of, without_bounds
from longhaul.adapters.iceberg.old_specs import WithOldSpecs
from longhaul.domain.errors import ContendedError
from longhaul.domain.paths import DataPath
from longhaul.domain.tables import TablePath
from longhaul.ports import Clock

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyarrow.parquet import FileMetaData
    from pyiceberg.io.pyarrow import StatsAggregator

# Iceberg's own library names its schema so in each file. It takes bounds from the values, without
# NaN, and knows more than the footer says.
_BY_ICEBERG = b"iceberg.schema"
_TAIL = 64 * 1024  # bytes: most footers at once
_AT_ONCE = 16
_IN_FOOTERS_END = 8  # its length, and PAR1

Bounds = tuple[bytes | None, bytes | None]
"""Of one column: lower and upper. None: a reader must look into the file."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WrongFile:
    """A data file whose manifest has bounds that its footer does not bear out."""

    path: str
    columns: Mapping[int, Bounds]  # by field id: what the footer bears out


@dataclass
class Checked:
    """What a look at a table's current snapshot found."""

    table: Table
    files: int = 0
    wrong: list[WrongFile] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    """Files that could not be checked, each with the reason."""

    def names(self, file: WrongFile) -> list[str]:
        columns = self.table.schema()
        return [columns.find_column_name(each) or str(each) for each in sorted(file.columns)]


class BoundsCheck:
    def __init__(self, tables: Tables, s3: "S3Client", path: TablePath) -> None:
        self._tables = tables
        self._s3 = s3
        self._path = path
        # Files are never changed: what was right stays right, for the same columns.
        self._right: set[tuple[int, str]] = set()

    def look(self) -> Checked:
        """Compare the table's files with its manifests.

        Raises:
            OccupiedError: it is not there, or no table that Longhaul writes.
        """
        table = self._tables.load(self._path)
        if table is None:
            raise OccupiedError(f"there is no table {self._path}")
        checked = Checked(table)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for manifest in _data_manifests(table):
                files = [each.data_file for each in manifest.fetch_manifest_entry(table.io)]
                checked.files += len(files)
                for file, found in zip(
                    files, pool.map(lambda file: self._judged(table, file), files), strict=True
                ):
                    if isinstance(found, str):
                        checked.unknown[file.file_path] = found
                    elif found:
                        checked.wrong.append(WrongFile(file.file_path, found))
        return checked

    def mend(self, clock: Clock) -> Checked:
        """Commit right bounds for all files that have wrong ones; returns what was found.

        Others may write to the table meanwhile: then it looks again.

        Raises:
            ContendedError: the table changed under each try.
            OccupiedError: as `look`.
        """
        before = None
        for tries in range(TRIES):
            if tries:
                clock.sleep(conflict_wait_s(str(self._path), tries))
            checked = self.look()
            if not checked.wrong:
                return before or checked  # the last try succeeded, and its answer was lost
            before = checked
            transaction = checked.table.transaction()
            right = {file.path: file.columns for file in checked.wrong}
            BoundsChange(transaction, checked.table.io, right).commit()
            try:
                commit_once(self._tables, checked.table, transaction)
            except CommitFailedException as error:
                logger.info("a commit in vain", extra={"error": type(error).__name__})
            else:
                return checked
        raise ContendedError(f"{self._path} changed under each of {TRIES} tries")

    def _judged(self, table: Table, file: DataFile) -> Mapping[int, Bounds] | str:
        """The columns whose bounds are wrong, with the right ones; a text if it is unknown."""
        key = (table.schema().schema_id, file.file_path)
        has_bounds = {**(file.lower_bounds or {}), **(file.upper_bounds or {})}
        if key in self._right or not has_bounds or file.file_format != FileFormat.PARQUET:
            return {}
        try:
            wrong = _wrong_bounds(file, self._footer(file), table)
        except (ClientError, OSError, ValueError, TypeError) as error:
            return code_of(error) if isinstance(error, ClientError) else str(error)
        if not wrong:
            self._right.add(key)
        return wrong

    def _footer(self, file: DataFile) -> "FileMetaData":
        import pyarrow.parquet as pq  # noqa: PLC0415 - it takes a moment

        path = DataPath.on_s3(file.file_path)
        tail = self._tail(path, min(_TAIL, file.file_size_in_bytes))
        length = int.from_bytes(tail[-_IN_FOOTERS_END:-4], "little") + _IN_FOOTERS_END
        if length > len(tail):
            tail = self._tail(path, min(length, file.file_size_in_bytes))
        return pq.read_metadata(BytesIO(tail))

    def _tail(self, path: DataPath, size: int) -> bytes:
        answer = self._s3.get_object(Bucket=path.bucket, Key=path.key, Range=f"bytes=-{size}")
        return answer["Body"].read()


class BoundsChange(WithOldSpecs["BoundsChange"]):
    """A snapshot of the same files, in which manifests with wrong bounds are written again.

    The files keep the snapshots and sequence numbers that they have: row deletes go on to apply to
    them, and an overwrite that began before replaces them.
    """

    def __init__(
        self, transaction: Transaction, io: FileIO, right: Mapping[str, Mapping[int, Bounds]]
    ) -> None:
        super().__init__(Operation.REPLACE, transaction, io)
        self._right = right

    def _deleted_entries(self) -> list[ManifestEntry]:
        return []

    def _existing_manifests(self) -> list[ManifestFile]:
        snapshot = self._transaction.table_metadata.current_snapshot()
        manifests = snapshot.manifests(self._io) if snapshot else []
        return [self._mended(each) for each in manifests]

    def _mended(self, manifest: ManifestFile) -> ManifestFile:
        if manifest.content != ManifestContent.DATA:
            return manifest
        entries = self.fetch_manifest_entry(manifest)
        if not any(entry.data_file.file_path in self._right for entry in entries):
            return manifest
        with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
            for entry in entries:
                _set_bounds(entry.data_file, self._right.get(entry.data_file.file_path, {}))
                writer.existing(entry)
        return writer.to_manifest_file()

    def _summary(self, snapshot_properties: Mapping[str, str] = EMPTY_DICT) -> Summary:
        """The table's totals are as they were. pyiceberg sums up no replacement."""
        before = self._transaction.table_metadata.current_snapshot()
        properties = before.summary.additional_properties if before and before.summary else {}
        totals = {name: value for name, value in properties.items() if name.startswith("total-")}
        return Summary(Operation.REPLACE, **totals, **snapshot_properties)


def _data_manifests(table: Table) -> Iterator[ManifestFile]:
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        if manifest.content == ManifestContent.DATA:
            yield manifest


def _wrong_bounds(file: DataFile, footer: "FileMetaData", table: Table) -> dict[int, Bounds]:
    from pyiceberg.io.pyarrow import (  # noqa: PLC0415 - it takes a moment
        MetricModeTypes,
        MetricsMode,
        StatisticsCollector,
        compute_statistics_plan,
        pyarrow_to_schema,
    )

    if _BY_ICEBERG in (footer.metadata or {}):
        return {}
    columns = pyarrow_to_schema(
        footer.schema.to_arrow_schema(),
        name_mapping=table.name_mapping(),
        downcast_ns_timestamp_to_us=True,
    )
    leaves = list(_leaves(columns.as_struct()))
    paths = [footer.schema.column(n).path for n in range(footer.num_columns)]
    ids = dict(zip(paths, leaves, strict=True))
    plan = compute_statistics_plan(table.schema(), {})
    # No reader asks for a column that was dropped.
    none = MetricsMode(MetricModeTypes.NONE)
    dropped = {each: StatisticsCollector(each, BooleanType(), none, "") for each in leaves}
    statistics = statistics_of(footer, dropped | plan, ids)
    serialized = statistics.to_serialized_dict()
    doubtful = without_bounds(footer, ids)
    return {
        each: (serialized["lower_bounds"].get(each), serialized["upper_bounds"].get(each))
        for each in set(leaves) & set(plan)
        if _bounds_of(file, each) != (None, None)
        and (
            each in doubtful
            or not _holds(_bounds_of(file, each), statistics.column_aggregates[each])
        )
    }


def _leaves(kind: IcebergType) -> Iterator[int]:
    """The ids of the columns of a file, in its order."""
    match kind:
        case StructType():
            fields: Sequence[NestedField] = kind.fields
        case ListType():
            fields = [kind.element_field]
        case MapType():
            fields = [kind.key_field, kind.value_field]
    for each in fields:
        if each.field_type.is_primitive:
            yield each.field_id
        else:
            yield from _leaves(each.field_type)


def _bounds_of(file: DataFile, column_id: int) -> Bounds:
    return (file.lower_bounds or {}).get(column_id), (file.upper_bounds or {}).get(column_id)


def _holds(bounds: Bounds, statistics: "StatsAggregator") -> bool:
    """Whether all values are between the bounds. A NaN is no bound."""
    if statistics.current_min is None:  # nulls alone
        return True
    kind = statistics.primitive_type
    lower, upper = (None if each is None else from_bytes(kind, each) for each in bounds)
    least, greatest = (
        from_bytes(kind, statistics.serialize(each))
        for each in (statistics.current_min, statistics.current_max)
    )
    return (lower is None or lower <= least) and (upper is None or greatest <= upper)


def _set_bounds(file: DataFile, columns: Mapping[int, Bounds]) -> None:
    for column_id, bounds in columns.items():
        for known, bound in zip((file.lower_bounds, file.upper_bounds), bounds, strict=True):
            if bound is None:
                known.pop(column_id, None)
            else:
                known[column_id] = bound
