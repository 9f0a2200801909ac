"""What outputs and tables say of the attempts that wrote them: manifests and snapshots, read back.

s3://bucket/out/   `_SUCCESS` there, or in the nearest prefix around it that names the files
table://db/name    the snapshots from one back to the overwrite that it goes back to
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of, is_denied
from longhaul.adapters.publisher import read_manifest
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.tables.reader import TableReader
from longhaul.cli.tables.upstream import Known, Wanted
from longhaul.domain.manifest import Manifest
from longhaul.domain.paths import DataPath
from longhaul.domain.provenance import MAX_ORIGINS, Origin, origin_in
from longhaul.domain.tables import TablePath, is_table

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_MODE: Final = "longhaul.mode"

# Others write manifests too: what looks like an ARN would be asked in their account.
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class OriginReader:
    def __init__(self, s3: Any, tables: Callable[[], TableReader]) -> None:  # noqa: ANN401 - boto3's client
        """`tables` reads the catalog; it is made where the walk comes to a table."""
        self._s3 = s3
        self._tables = tables

    def look(self, wanted: Wanted) -> Known:
        """What the place says of that version of its data.

        Of what is asked for:

        Raises:
            CommandError: it is no place of data, or a table of another stack's, or its metadata
                cannot be read.
        """
        try:
            return self._table(wanted) if is_table(wanted.place) else self._output(wanted)
        except CommandError as error:
            if wanted.read is None:
                raise
            return Known(note=f"not looked up: {error}")
        except ClientError as error:
            if wanted.read is None or not (is_denied(error) or code_of(error) == "NoSuchBucket"):
                raise
            return Known(note=f"not looked up: AWS answers {code_of(error)}")

    def _output(self, wanted: Wanted) -> Known:
        path = DataPath.on_s3(wanted.place)
        if not _BUCKET.fullmatch(path.bucket):
            raise CommandError(f"{wanted.place} is no s3://BUCKET/PREFIX", ExitStatus.USAGE)
        for prefix in _around(path.key):
            manifest, _ = read_manifest(self._s3, path.bucket, prefix)
            if manifest is None:
                continue
            # Of the prefix itself all of it, with or without its slash.
            below = f"{path.key}/".removeprefix(prefix).rstrip("/")
            names = [f.path for f in manifest.files if f"{f.path}/".startswith(f"{below}/")]
            if below and not names:
                break
            return _of_manifest(manifest, wanted, names if below else None)
        return Known(
            note="no output of Longhaul: there is no _SUCCESS of a job that names it, here or above"
        )

    def _table(self, wanted: Wanted) -> Known:
        path = TablePath.of(wanted.place)
        if not path.database or not path.name:
            raise CommandError(f"{wanted.place} is no table://DATABASE/NAME", ExitStatus.USAGE)
        reader = self._tables()
        entry = reader.look(path.database, path.name)
        if entry is None:
            return Known(note="there is no such table any more" if wanted.read else "no such table")
        metadata = reader.metadata(entry)
        asked = wanted.read.snapshot if wanted.read else metadata.current_snapshot_id
        snapshot = metadata.snapshot_by_id(asked) if asked is not None else None
        if snapshot is None:
            return Known(note=f"snapshot {asked} has expired" if asked else "it has no rows yet")
        origins, others = list[Origin](), 0
        for each in _back_to_overwrite(metadata, snapshot):
            origin = origin_in(_summary(each))
            if origin is not None:
                origins.append(origin)
            elif _operation(each) != "replace":  # which changes no rows
                others += 1
        changes = f"{others:,} change{'' if others == 1 else 's'} by other writers than Longhaul"
        notes = [changes] if others else []
        if len(origins) > MAX_ORIGINS:
            notes.append(f"the latest {MAX_ORIGINS} of {len(origins):,} outputs in it")
        kept = tuple(reversed(origins[:MAX_ORIGINS]))
        return Known(kept, "; ".join(notes), str(snapshot.snapshot_id))


def _of_manifest(manifest: Manifest, wanted: Wanted, names: list[str] | None) -> Known:
    """`names`: only of these files; None: of the whole output."""
    origins = list(manifest.origins)
    if names is not None:
        origins = [each for each in origins if any(each.id.token in name for name in names)]
    if wanted.writer is not None:
        ids = [each.id for each in origins]
        if wanted.writer.id not in ids:
            return Known(note=f"replaced since, by {manifest.key}: what it was made of is not kept")
        origins = origins[: ids.index(wanted.writer.id) + 1]
    if not origins:
        return Known(note=f"written by {manifest.key}, which did not say what it read")
    return Known(tuple(origins))


def _around(key: str) -> list[str]:
    """The prefix, or the one that holds the object, and those around it, nearest first."""
    segments = key.rstrip("/").split("/")
    return ["/".join(segments[:n]) + "/" for n in range(len(segments), 0, -1)]


def _back_to_overwrite(metadata: "TableMetadata", latest: "Snapshot") -> Iterator["Snapshot"]:
    """The snapshots whose rows may be in the latest one, as far as they are known; newest first."""
    at: Snapshot | None = latest
    seen = set[int]()
    # Others write metadata too: a snapshot may be named as its own ancestor.
    while at is not None and at.snapshot_id not in seen:
        seen.add(at.snapshot_id)
        yield at
        if _summary(at).get(_MODE) == "overwrite":
            return
        parent = at.parent_snapshot_id
        at = metadata.snapshot_by_id(parent) if parent is not None else None


def _summary(snapshot: "Snapshot") -> dict[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def _operation(snapshot: "Snapshot") -> str:
    return snapshot.summary.operation.value if snapshot.summary else ""
