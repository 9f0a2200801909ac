"""Row deletes, as Spark and Athena write them: pyiceberg writes none."""

import io
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.delete_file_index import PATH_FIELD_ID
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

_COLUMNS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_FIELD_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ]
)


class _Writer(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _Append(_FastAppendFiles):
    """Its files are row deletes."""

    def _manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        output = self._io.new_output(f"{metadata.location}/metadata/{uuid.uuid4()}.avro")
        snapshot = self._snapshot_id
        writer = _Writer(metadata.spec(), metadata.schema(), output, snapshot, "deflate")
        with writer:
            for file in self._added_data_files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=snapshot,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        return [writer.to_manifest_file(), *self._existing_manifests()]


def delete_rows(
    table: Table,
    positions: Mapping[str, Sequence[int]],
    partition: Record | None = None,
    *,
    content: DataFileContent = DataFileContent.POSITION_DELETES,
    file_format: FileFormat = FileFormat.PARQUET,
) -> None:
    """Commit one file of deletes, for rows of these data files, which are of one partition."""
    rows = [(path, at) for path in sorted(positions) for at in positions[path]]
    columns = zip(*rows, strict=True)
    buffer = io.BytesIO()
    arrays = [pa.array(each, kind) for each, kind in zip(columns, _COLUMNS.types, strict=True)]
    pq.write_table(pa.table(arrays, schema=_COLUMNS), buffer)
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    with table.io.new_output(path).create() as stream:
        stream.write(buffer.getvalue())
    file: Any = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=file_format,
        partition=partition or Record(),
        record_count=len(rows),
        file_size_in_bytes=len(buffer.getvalue()),
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={PATH_FIELD_ID: rows[0][0].encode()},
        upper_bounds={PATH_FIELD_ID: rows[-1][0].encode()},
        key_metadata=None,
        split_offsets=None,
        equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
        sort_order_id=None,
    )
    file.spec_id = table.spec().spec_id
    with (
        table.transaction() as transaction,
        _Append(Operation.DELETE, transaction, table.io) as update,
    ):
        update.append_data_file(file)
