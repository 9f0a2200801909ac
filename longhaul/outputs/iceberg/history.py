"""What became of a table since a snapshot, and what an overwrite that began there may replace.

Read from manifests. A rewrite of other files (a compaction) is followed: the rows stay the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.delete_file_index import PATH_FIELD_ID
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from longhaul.outputs.iceberg.catalog import OccupiedError
from longhaul.outputs.manifest import is_of_earlier_run

TOKEN: Final = "longhaul.token"  # noqa: S105 - a property's name
"""In a snapshot's summary: the attempt whose output it added."""
MODE: Final = "longhaul.mode"
PUBLISHED: Final = "longhaul.published"
"""A property of the table: the latest tokens, for when their snapshots have expired."""
BASE: Final = "longhaul.base"
"""A property of the table: the token of the latest overwrite of the whole table by Longhaul."""

_UNTOLD: Final = (
    "an earlier run of this job has added rows, which cannot be told from others any more: its"
    " files were rewritten together with others, or after its snapshot had expired. Delete these"
    " rows, and submit the request under another job_id"
)

Place = tuple[int, tuple[Any, ...]]
"""A partition: the id of its spec, and its values in the order of that spec."""


class ReplacedError(Exception):
    """Another overwrite came first: this one counts as the earlier of the two."""


class ChangedError(OccupiedError):
    """The rows to replace are others by now: the job has to run again."""


@dataclass
class SnapshotChange:
    """What one snapshot added and removed."""

    snapshot: Snapshot
    added: set[DataFile] = field(default_factory=set)
    removed: set[DataFile] = field(default_factory=set)
    row_deletes: set[DataFile] = field(default_factory=set)

    @property
    def mode(self) -> str:
        return summary_of(self.snapshot).get(MODE, "")


def is_published(table: Table, token: str) -> bool:
    """Whether that attempt's output is, or was, part of the table.

    Snapshots of all branches count, and those that somebody rolled back.
    """
    kept = table.metadata.properties.get(PUBLISHED, "").split()
    return token in kept or any(
        summary_of(snapshot).get(TOKEN) == token for snapshot in table.metadata.snapshots
    )


def place_of(file: DataFile) -> Place:
    return file.spec_id, tuple(file.partition[n] for n in range(len(file.partition)))


def require_one_spec(table: Table, snapshot: Snapshot | None) -> None:
    """Raises OccupiedError if files are partitioned in another way than new ones.

    Such a file may hold rows of any of the new partitions.
    """
    for manifest in manifests_of(table, snapshot):
        if (
            manifest.content == ManifestContent.DATA
            and manifest.partition_spec_id != table.spec().spec_id
            and manifest.fetch_manifest_entry(table.io)
        ):
            raise OccupiedError(
                "the table's partitioning has changed, and it has files from before, whose"
                " partitions cannot be overwritten: rewrite them (Spark: rewrite_data_files with"
                " rewrite-all), or use another mode"
            )


def to_replace(table: Table, since: int | None, partitions: set[Place] | None) -> set[DataFile]:
    """The files that hold, now, the rows that an overwrite saw when it began.

    `partitions` limits it to those; None is the whole table.

    Raises:
        ReplacedError: another overwrite of the same came first.
        ChangedError: its rows were changed, or mixed with others in a compaction.
        OccupiedError: as `require_one_spec`, of partitions.
    """

    def is_ours(file: DataFile) -> bool:
        return partitions is None or place_of(file) in partitions

    start = table.metadata.snapshot_by_id(since) if since is not None else None
    if since is not None and start is None:
        raise ChangedError("the snapshot that this output would replace has expired")
    if partitions is not None:
        require_one_spec(table, start)
    files = {file for file in live_files(table, start) if is_ours(file)}
    for change in _changes_since(table, since):
        touched = files & change.removed
        if is_compaction(change.snapshot):
            files = files - touched | _rewritten(
                touched,
                change,
                ChangedError("a compaction has mixed the rows to be replaced with others"),
            )
        elif change.mode == "overwrite":
            raise ReplacedError
        elif (
            partitions is not None
            and change.mode == "overwrite_partitions"
            and any(map(is_ours, change.added))
        ):
            if partitions <= {place_of(file) for file in change.added}:
                raise ReplacedError
            raise ChangedError("another job has overwritten some of these partitions")
        elif touched or any(_may_concern(deletes, files) for deletes in change.row_deletes):
            raise ChangedError("rows that this output would replace have changed")
    return files


def added_before(table: Table, token: str) -> set[DataFile]:
    """The files that hold, now, the rows that earlier runs of the attempt's job have added.

    Their names say whose they are. A compaction since is followed, as far as snapshots are kept.

    Raises:
        ReplacedError: a later run of the job has added its rows.
        OccupiedError: their rows were mixed with others in a compaction, or cannot be told any
            more.
    """
    tokens = [summary_of(each).get(TOKEN) for each in table.metadata.snapshots]
    if any(each and is_of_earlier_run(token, each) for each in tokens):
        raise ReplacedError
    files: set[DataFile] = set()
    ancestors = [*ancestors_of(_current(table), table.metadata)]
    for snapshot in reversed(ancestors):
        is_own = is_of_earlier_run(summary_of(snapshot).get(TOKEN, ""), token)
        if not (is_own or files):
            continue
        change = _change_of(table, snapshot)
        touched = files & change.removed
        files -= touched
        if is_own:
            files |= change.added
        elif is_compaction(snapshot) and touched:
            # No later attempt can tell mixed rows either, so this is no ChangedError.
            files |= _rewritten(touched, change, OccupiedError(_UNTOLD))
    live = live_files(table, _current(table))
    found = files & live | {each for each in live if is_of_earlier_run(each.file_path, token)}
    kept = {summary_of(each).get(TOKEN) for each in ancestors}
    published = table.metadata.properties.get(PUBLISHED, "").split()
    if not found and any(is_of_earlier_run(each, token) for each in {*published} - kept):
        raise OccupiedError(_UNTOLD)
    return found


def _current(table: Table) -> Snapshot | None:
    return table.metadata.snapshot_by_id(table.metadata.current_snapshot_id or -1)


def manifests_of(table: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    """None of a table without a snapshot."""
    return snapshot.manifests(table.io) if snapshot else []


def live_files(table: Table, snapshot: Snapshot | None) -> set[DataFile]:
    return {
        entry.data_file
        for manifest in manifests_of(table, snapshot)
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io)
    }


def _changes_since(table: Table, since: int | None) -> Iterator[SnapshotChange]:
    """Oldest first.

    Raises:
        ChangedError: a snapshot in between has expired, or the table was rolled back.
    """
    ancestors = ancestors_of(_current(table), table.metadata)
    chain = list(takewhile(lambda each: each.snapshot_id != since, ancestors))
    # Without a snapshot to begin from there is nothing that history could have changed.
    if since is not None:
        before = chain[-1].parent_snapshot_id if chain else table.metadata.current_snapshot_id
        if before is None:
            raise ChangedError("the table was rolled back since this output's upload")
        if before != since:
            raise ChangedError("the table's history since this output's upload has expired")
    for snapshot in reversed(chain):
        yield _change_of(table, snapshot)


def _change_of(table: Table, snapshot: Snapshot) -> SnapshotChange:
    change = SnapshotChange(snapshot)
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.snapshot_id != snapshot.snapshot_id:
                continue
            is_data = manifest.content == ManifestContent.DATA
            if entry.status == ManifestEntryStatus.ADDED:
                (change.added if is_data else change.row_deletes).add(entry.data_file)
            elif entry.status == ManifestEntryStatus.DELETED and is_data:
                change.removed.add(entry.data_file)
    return change


def _rewritten(
    touched: set[DataFile], change: SnapshotChange, mixed: OccupiedError
) -> set[DataFile]:
    """What holds the rows of `touched` after a compaction, which leaves rows in their partition.

    Raises:
        OccupiedError: it holds other rows too; the error is `mixed`.
    """
    at = {place_of(file) for file in touched}
    removed, added = (
        {file for file in files if place_of(file) in at} for files in (change.removed, change.added)
    )
    if removed != touched or sum(file.record_count for file in removed) != sum(
        file.record_count for file in added
    ):
        raise mixed
    return added


def _may_concern(deletes: DataFile, files: set[DataFile]) -> bool:
    """Whether a file of row deletes may name rows of these files."""
    lower, upper = (
        (bounds or {}).get(PATH_FIELD_ID) for bounds in (deletes.lower_bounds, deletes.upper_bounds)
    )
    if lower is None or upper is None:  # of a delete by values, for one
        return bool(files)
    return any(lower <= file.file_path.encode() <= upper for file in files)


def written_by(metadata: TableMetadata, snapshot: Snapshot) -> Snapshot:
    """The snapshot that brought the latest rows: a compaction changes none."""
    for each in ancestors_of(snapshot, metadata):
        snapshot = each
        if not is_compaction(each):
            break
    return snapshot


def is_compaction(snapshot: Snapshot) -> bool:
    """Whether it has rewritten files, and changed no rows."""
    return snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    """What is in its summary beside the operation."""
    return snapshot.summary.additional_properties if snapshot.summary else {}
