"""The Glue catalog, and a table in it as Longhaul may use it."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.exceptions import (
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
)
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.typedef import EMPTY_DICT, Properties

from longhaul.core.places import TablePath
from longhaul.outputs.iceberg.file_io import BotoFileIO
from longhaul.outputs.partitions import PartitionBy, Transform

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

FORMAT_VERSION = 2


class OccupiedError(Exception):
    """An output cannot become part of the table as it is now; the text says why, for people."""


class _Glue(GlueCatalog):
    def __init__(self, glue: Any, s3: "S3Client", *, is_bounded: bool) -> None:  # noqa: ANN401 - boto3's client
        super().__init__("glue", client=glue)
        self._s3 = s3
        self._is_bounded = is_bounded

    def _load_file_io(
        self,
        properties: Properties = EMPTY_DICT,  # noqa: ARG002 - pyiceberg's signature
        location: str | None = None,  # noqa: ARG002 - as above
    ) -> FileIO:
        return BotoFileIO(self._s3, is_bounded=self._is_bounded)


class Tables:
    """The tables of the account's Glue catalog whose files are in the data bucket."""

    def __init__(
        self, glue: Callable[[], Any], s3: "S3Client", bucket: str, *, is_bounded: bool = True
    ) -> None:
        """`glue` makes boto3's client, on first use. `is_bounded` as for `BotoFileIO`."""
        self._make_glue = glue
        self._s3 = s3
        self._is_bounded = is_bounded
        self.bucket = bucket

    @cached_property
    def catalog(self) -> GlueCatalog:
        return _Glue(self._make_glue(), self._s3, is_bounded=self._is_bounded)

    def load(self, path: TablePath) -> Table | None:
        """The table, to write to it; None where there is none.

        Raises:
            OccupiedError: what has that name is no table that Longhaul can write.
        """
        table = self.find(path)
        if table is not None:
            self.require_writable(path, table)
        return table

    def require_writable(self, path: TablePath, table: Table) -> None:
        """Raises OccupiedError unless it is a table that Longhaul can write."""
        if table.metadata.format_version != FORMAT_VERSION:
            raise OccupiedError(
                f"{path} has Iceberg's format {table.metadata.format_version}: Longhaul writes"
                f" format {FORMAT_VERSION}"
            )
        location = path.location(self.bucket)
        if table.location().rstrip("/") != location:
            raise OccupiedError(f"{path} is at {table.location()}: Longhaul writes to {location}")

    def find(self, path: TablePath) -> Table | None:
        """The table, whoever made it; None where there is none.

        Raises:
            OccupiedError: what has that name is no Iceberg table.
        """
        try:
            return self.catalog.load_table((path.database, path.name))
        except (NoSuchIcebergTableError, NoSuchPropertyException) as error:
            raise OccupiedError(f"{path} is no Iceberg table") from error
        except NoSuchTableError:
            return None
        except ValueError as error:  # a view; or metadata of a newer format than pyiceberg knows
            raise OccupiedError(f"{path} is no Iceberg table that can be read") from error

    def has_database(self, path: TablePath) -> bool:
        try:
            self.catalog.load_namespace_properties(path.database)
        except NoSuchNamespaceError:
            return False
        return True


def partition_fields(table: Table) -> Iterator[tuple[str | None, str]]:
    """The columns by which the table is partitioned, each with its transform in Iceberg's words."""
    for field in table.spec().fields:
        yield table.schema().find_column_name(field.source_id), str(field.transform)


def partition_of(table: Table) -> tuple[PartitionBy, ...]:
    """How the table is partitioned.

    Raises:
        OccupiedError: in a way in which Spark alone cannot split rows.
    """
    found = []
    for column, transform in partition_fields(table):
        if transform not in get_args(Transform) or not column or "." in column:
            raise OccupiedError(
                f"{'.'.join(table.name())} is partitioned by {transform}({column}): Longhaul can"
                f" partition by a column, or its {', '.join(get_args(Transform)[1:])}"
            )
        found.append(PartitionBy.model_validate({"column": column, "transform": transform}))
    return tuple(found)
