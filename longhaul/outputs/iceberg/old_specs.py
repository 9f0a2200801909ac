"""Snapshots that write manifests of earlier partitionings again.

A manifest has the types of its partitions' values, which follow from the columns. pyiceberg takes
the table's columns of now, and knows no type for one that was dropped.
"""

from collections.abc import Callable

from pyiceberg.expressions.visitors import manifest_evaluator
from pyiceberg.manifest import ManifestFile, ManifestWriter, write_manifest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update.snapshot import _OverwriteFiles

from longhaul.outputs.iceberg.catalog import OccupiedError


def schema_of(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """The latest schema with the columns that the spec goes by: the table's own, if it has them.

    Raises:
        OccupiedError: the table's metadata has none any more.
    """
    sources = {field.source_id for field in spec.fields}
    now = metadata.schema()
    for schema in (now, *sorted(metadata.schemas, key=lambda each: -each.schema_id)):
        if sources <= set(schema.field_ids):
            return schema
    raise OccupiedError(
        "the table has files that are partitioned by a column which was dropped, and no longer has"
        " that column's type: write to another table"
    )


class Overwrite(_OverwriteFiles):
    """A snapshot that removes files, of whatever spec, and adds others."""

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        metadata = self._transaction.table_metadata
        return write_manifest(
            format_version=metadata.format_version,
            spec=spec,
            schema=schema_of(metadata, spec),
            output_file=self.new_manifest_output(),
            snapshot_id=self._snapshot_id,
            avro_compression=self._compression,
        )

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        spec = self.spec(spec_id)
        schema = schema_of(self._transaction.table_metadata, spec)
        return manifest_evaluator(spec, schema, self.partition_filters[spec_id])
