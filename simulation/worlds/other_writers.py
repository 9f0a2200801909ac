"""Others who write to a table: another tool, a person, a service that maintains it.

Each change is made in one moment, between two calls of Longhaul's.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import Record

from longhaul.core.places import TablePath
from longhaul.outputs.iceberg.catalog import Tables
from simulation.seen.table_files import key_of, live_entries

if TYPE_CHECKING:
    from simulation.worlds.world import World

Group = Sequence[DataFile]
"""Files whose rows get into one new file; of none, that has a row of its own."""


def write(world: "World", kind: str, path: TablePath) -> None:
    """Change the table in one of the ways of `tables.WRITERS`."""
    with world.seen.lake.others_write():
        aws = cast("Any", world.aws)
        table = Tables(lambda: aws.glue, aws.s3, world.bucket).load(path)
        if table is None:
            return
        files = [entry.data_file for entry in live_entries(table.current_snapshot(), table.io)]
        match kind:
            case "appends":
                _commit(world, table, [], [[]])
            case "deletes":
                _commit(world, table, files[:1], [])
            case "compacts":
                _commit(world, table, files, [files], Operation.REPLACE)
            case "rewrites":
                _commit(world, table, files, [[file] for file in files], Operation.REPLACE)
            case "expires":
                _expire(table)
            case "maintains":
                _commit(world, table, files, [[file] for file in files], Operation.REPLACE)
                _expire(table.refresh())


def _expire(table: Table) -> None:
    """All snapshots but the newest."""
    older = [each.snapshot_id for each in table.snapshots()[:-1]]
    table.maintenance.expire_snapshots().by_ids(older).commit()


def _commit(
    world: "World",
    table: Table,
    old: Group,
    new: Sequence[Group],
    operation: Operation | None = None,
) -> None:
    """Remove files and add one for each group; the operation's name follows from that if None."""
    if not old and operation is not None:
        return
    transaction = table.transaction()
    with transaction.update_snapshot().overwrite() as snapshot:
        for file in old:
            snapshot.delete_data_file(file)
        for group in new:
            snapshot.append_data_file(_new_file(world, table, group))
    if operation is not None:  # pyiceberg itself cannot compact
        transaction._updates = tuple(  # noqa: SLF001 - as above
            _named(update, operation) if isinstance(update, AddSnapshotUpdate) else update
            for update in transaction._updates  # noqa: SLF001 - as above
        )
    transaction.commit_transaction()


def _named(update: AddSnapshotUpdate, operation: Operation) -> AddSnapshotUpdate:
    before = update.snapshot.summary
    summary = Summary(operation, **(before.additional_properties if before else {}))
    return update.model_copy(
        update={"snapshot": update.snapshot.model_copy(update={"summary": summary})}
    )


def _new_file(world: "World", table: Table, group: Group) -> DataFile:
    lake = world.seen.lake
    location = f"{table.location()}/data/others-{len(lake.others_files)}.parquet"
    key = key_of(location)
    world.aws.s3.put_object(Bucket=world.bucket, Key=key)
    rows = sum((lake.rows_in(key_of(file.file_path)) for file in group), Counter[str]())
    lake.others_files[key] = rows or Counter((key,))
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=sum(file.record_count for file in group) or 1,
        file_size_in_bytes=1,
        split_offsets=None,
        spec_id=table.spec().spec_id,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
    )
