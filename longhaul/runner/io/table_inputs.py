"""The files of tables that are inputs: data files, and the row deletes that apply to them.

What cannot be read as its writer meant it is refused by name.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    In,
    LiteralPredicate,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    SetPredicate,
)
from pyiceberg.expressions.literals import AboveMax, BelowMin, Literal
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, IntegerType, LongType
from pyparsing import ParseException

from longhaul.core.errors import PermanentJobError
from longhaul.core.places import DataPath, TableInput, TablePath
from longhaul.outputs.iceberg.catalog import FORMAT_VERSION, OccupiedError, Tables
from longhaul.outputs.iceberg.history import summary_of, written_by
from longhaul.runner.io.listing import NoInputError, Source
from longhaul.runner.io.table_destination import version_of
from longhaul.runner.io.table_projection import UnreadableError, spark_columns
from longhaul.runner.io.transfer import VanishedError
from longhaul.saved.record import TableRead

_ALL: Final = AlwaysTrue()
# Hadoop's names for S3, which other writers leave in the metadata.
_S3: Final = ("s3://", "s3a://", "s3n://")

# Of Python, for null beside any other value.
_NULL_COMPARED: Final = re.compile(r"not supported between instances of .*'NoneType'")

logger = logging.getLogger(__name__)


class MissingTableError(UnreadableError):
    """There is no such table, or none any more."""


@dataclass(frozen=True)
class PlannedFile:
    """A data file. `uri` is how row deletes name it.

    `constants` has the values of its identity partition by field id, in pyiceberg's own form: files
    that came from Hive lack these columns.
    """

    uri: str
    source: Source
    deletes: tuple[Source, ...]
    constants: Mapping[int, Any]
    where: BooleanExpression  # bound; what its partition says already is left out


@dataclass(frozen=True)
class PlannedTable:
    """A table as an input: its columns, and the files that hold its rows."""

    name: str  # of the input
    schema: Schema
    names: NameMapping  # of columns in files without field ids
    files: tuple[PlannedFile, ...]
    # The same means the same rows. Not made of the files: how many the filter leaves out depends
    # on the columns that the table has by now.
    digest: str
    snapshot: int | None = None
    # The summary of the snapshot whose rows these are: a compaction leaves them as they were.
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass
class TablePlanner:
    """Looks at each table once, so that all inputs from it are of one version."""

    tables: Tables
    require_readable: Callable[[str], object]
    """Raises ValueError for a place that the job may not read."""
    pinned: Mapping[str, TableRead] = field(default_factory=dict)
    """Versions of tables that are read as they are, by the tables' paths."""
    _loaded: dict[TablePath, Table] = field(default_factory=dict)

    def plan(
        self, inputs: Mapping[str, TableInput], versions: dict[TablePath, TableRead]
    ) -> dict[str, PlannedTable]:
        """`versions` gets those of tables that are read as they are now.

        Raises:
            NoInputError: a table is missing.
            PermanentJobError: a table cannot be read right; the message says why.
            VanishedError: a file of its metadata is gone.
        """
        self._loaded.clear()
        versions.clear()
        if not all(self._is_there(wanted) for wanted in inputs.values()):
            self.pinned = {}  # all or none: what was stored is of no use without each
        planned = {}
        for name, wanted in inputs.items():
            try:
                planned[name] = self._plan(name, wanted, versions)
                spark_columns(planned[name].schema)
            except MissingTableError as error:
                raise NoInputError(f"input {name!r}: {error}") from error
            except (OccupiedError, UnreadableError) as error:
                raise PermanentJobError(f"input {name!r}: {error}") from error
            except FileNotFoundError as error:
                raise VanishedError(str(error)) from error
        return planned

    def _plan(
        self, name: str, wanted: TableInput, versions: dict[TablePath, TableRead]
    ) -> PlannedTable:
        table = self._load(wanted.table)
        schema = table.schema()
        if wanted.snapshot is None:
            # As an attempt before has read it, if one did.
            version = self.pinned.get(str(wanted.table)) or version_of(table)
            versions[wanted.table] = version
            snapshot = None if version.snapshot is None else table.snapshot_by_id(version.snapshot)
            schema = table.schemas().get(version.schema_id, schema)
        else:
            snapshot = table.snapshot_by_id(wanted.snapshot)
            if snapshot is None:
                raise UnreadableError(
                    f"{wanted.table} has no snapshot {wanted.snapshot}: it never was, or expired"
                )
            schema = table.schemas().get(snapshot.schema_id or 0, schema)
        where = parse_filter(wanted.where, schema)
        logger.info(
            "input %s is %s",
            name,
            wanted.table,
            extra={"snapshot": snapshot.snapshot_id if snapshot else None},
        )
        names = table.name_mapping() or NameMapping([])
        digest = _digest(table, snapshot, schema, wanted.where)
        if snapshot is None:
            return PlannedTable(name, schema, names, (), digest)
        _require_no_equality_deletes(wanted.table, snapshot, table)
        # Manifests are pruned by the names that columns have now. What is left of the filter for a
        # file (its residual) is known only where they were.
        pruned = where if schema.schema_id == table.schema().schema_id else _ALL
        try:
            tasks = [*table.scan(row_filter=pruned, snapshot_id=snapshot.snapshot_id).plan_files()]
        except TypeError as error:
            if not _NULL_COMPARED.search(str(error)):
                raise
            # pyiceberg compares a null partition's value with the filter's. Read all files, and
            # apply the filter to their rows.
            pruned = _ALL
            tasks = [*table.scan(snapshot_id=snapshot.snapshot_id).plan_files()]
        bound = bind(schema, where, case_sensitive=True)
        files = tuple(
            self._planned(table, task, _ALL if pruned == where and task.residual == _ALL else bound)
            for task in sorted(tasks, key=lambda task: task.file.file_path)
        )
        return PlannedTable(
            name,
            schema,
            names,
            files,
            digest,
            snapshot.snapshot_id,
            summary_of(written_by(table.metadata, snapshot)),
        )

    def _is_there(self, wanted: TableInput) -> bool:
        """Whether the version that an attempt before has read can still be read."""
        pinned = self.pinned.get(str(wanted.table))
        if wanted.snapshot is not None or pinned is None:
            return True
        try:
            table = self._load(wanted.table)
        except (OccupiedError, UnreadableError, FileNotFoundError):
            return False  # the plan says what is wrong
        if pinned.schema_id not in table.schemas():
            return False
        return pinned.snapshot is None or table.snapshot_by_id(pinned.snapshot) is not None

    def _load(self, path: TablePath) -> Table:
        if path not in self._loaded:
            table = self.tables.find(path)
            if table is None:
                raise MissingTableError(f"there is no table {path}")
            if table.metadata.format_version > FORMAT_VERSION:
                raise UnreadableError(
                    f"{path} has Iceberg's format {table.metadata.format_version}: Longhaul reads"
                    f" up to {FORMAT_VERSION}; copy the rows to a table of format"
                    f" {FORMAT_VERSION}, or read it with a job's own code"
                )
            self._loaded[path] = table
        return self._loaded[path]

    def _planned(self, table: Table, task: FileScanTask, where: BooleanExpression) -> PlannedFile:
        return PlannedFile(
            uri=task.file.file_path,
            source=self._source(task.file),
            deletes=tuple(
                self._source(each)
                for each in sorted(task.delete_files, key=lambda each: each.file_path)
            ),
            constants={
                part.source_id: task.file.partition[n]
                for n, part in enumerate(table.specs()[task.file.spec_id].fields)
                if isinstance(part.transform, IdentityTransform)
            },
            where=where,
        )

    def _source(self, file: DataFile) -> Source:
        uri = file.file_path
        scheme = next((each for each in _S3 if uri.startswith(each)), None)
        if scheme is None:
            raise UnreadableError(f"{uri} is not on S3: copy the table to one that is")
        place = f"s3://{uri.removeprefix(scheme)}"
        if file.file_format != FileFormat.PARQUET:
            raise UnreadableError(
                f"{place} is {file.file_format.value}: Longhaul reads tables of Parquet files;"
                " rewrite it (rewrite_data_files, with write.format.default=parquet)"
            )
        if file.key_metadata:
            raise UnreadableError(f"{place} is encrypted by its writer: Longhaul has no key for it")
        try:
            self.require_readable(place)
        except ValueError as error:
            raise UnreadableError(f"the table's file {place}: {error}") from error
        path = DataPath.on_s3(place)
        return Source(path.bucket, path.key, file.file_size_in_bytes)


def _digest(table: Table, snapshot: Snapshot | None, schema: Schema, where: str) -> str:
    """Hex digits that are the same only for the same rows and columns."""
    version = snapshot.snapshot_id if snapshot else None
    text = f"{table.metadata.table_uuid} {version} {schema.schema_id} {where}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def parse_filter(where: str, schema: Schema) -> BooleanExpression:
    """Raises UnreadableError, for people, if it cannot be used."""
    if not where:
        return _ALL
    try:
        found = parse(where)
        bind(schema, found, case_sensitive=True)
        return _as_in_sql(rewrite_not(found), schema)
    except ParseException as error:
        # Its own text is the whole grammar, and then the filter.
        raise UnreadableError(
            f"its filter cannot be used: it makes no sense at character {error.column}"
        ) from error
    except (ValueError, TypeError, ArithmeticError) as error:
        raise UnreadableError(f"its filter cannot be used: {error}") from error


def _as_in_sql(where: BooleanExpression, schema: Schema) -> BooleanExpression:
    """A filter without `not`, in which null matches no negation, and 0.0 is -0.0 in a list too.

    Null would match for Iceberg, which looks at partitions, and not for pyarrow, which looks at
    rows: what a filter means would depend on how the table is partitioned. In a list pyarrow
    compares the bits of floats.

    Raises:
        ValueError: a column is compared with a number that its type does not have.
    """
    if isinstance(where, LiteralPredicate | SetPredicate):
        _require_in_type(where, schema)
    match where:
        case In(term=term, literals=literals) if _has_zero(literals):
            return Or(where, EqualTo(term=term, value=0))
        case NotIn(term=term, literals=literals) if _has_zero(literals):
            return And(where, NotNull(term=term), NotEqualTo(term=term, value=0))
        case And():
            return And(_as_in_sql(where.left, schema), _as_in_sql(where.right, schema))
        case Or():
            return Or(_as_in_sql(where.left, schema), _as_in_sql(where.right, schema))
        case NotEqualTo() | NotIn() | NotStartsWith() | NotNaN():
            return And(where, NotNull(term=where.term))
        case _:
            return where


def _require_in_type(where: LiteralPredicate | SetPredicate, schema: Schema) -> None:
    """Raises ValueError for a number that the column's type does not have.

    pyiceberg makes of one beyond it the greatest or the least of the type, which rows then match,
    and cuts fractions.
    """
    term: Any = where.term
    column = term.bind(schema, case_sensitive=True).ref().field
    kind = column.field_type
    for each in where.literals if isinstance(where, SetPredicate) else (where.literal,):
        if isinstance(kind, IntegerType | LongType) and each.value % 1:
            raise ValueError(f"column {column.name} is {kind}: compare it with whole numbers")
        if isinstance(kind, DecimalType):
            is_beyond = abs(each.value) >= 10 ** (kind.precision - kind.scale)
        else:
            is_beyond = isinstance(each.to(kind), AboveMax | BelowMin)
        if is_beyond:
            raise ValueError(f"column {column.name} is {kind}, which has no {each.value}")


def _has_zero(literals: Iterable[Literal[Any]]) -> bool:
    # False equals 0 in Python, and no boolean is compared with a number.
    return any(each.value == 0 and not isinstance(each.value, bool) for each in literals)


def _require_no_equality_deletes(path: TablePath, snapshot: Snapshot, table: Table) -> None:
    for manifest in snapshot.manifests(table.io):
        if manifest.content != ManifestContent.DELETES:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                raise UnreadableError(
                    f"{path} has equality deletes ({entry.data_file.file_path}), which Longhaul"
                    " does not apply: compact it (Athena: OPTIMIZE … REWRITE DATA USING BIN_PACK;"
                    " Spark: rewrite_data_files with delete-file-threshold 1), then send the job"
                    " again"
                )
