"""Where data comes from: from an output or a table to what its attempts had read, and so on.

Manifests and snapshots say it, read back:

s3://bucket/out/   `_SUCCESS` there, or in the nearest prefix around it that names the files
table://db/name    the snapshots from one back to the overwrite that it goes back to

The walk ends at what Longhaul did not write.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of, is_denied
from longhaul.core.errors import InvalidRequestError, LonghaulError
from longhaul.core.places import DataPath, TablePath, is_table
from longhaul.core.request import with_names
from longhaul.core.settings import PathPolicy
from longhaul.outputs.lineage import MAX_ORIGINS, InputRead, Origin, Writer, origin_in
from longhaul.outputs.manifest import Manifest, last_token
from longhaul.outputs.publisher import read_manifest

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from longhaul.operations.tables import TableReader

MAX_PLACES: Final = 200
"""Places that a walk looks up: each is a call or two, and a join may have thousands of inputs."""

_MAX_DEPTH: Final = 50


@dataclass(frozen=True)
class Wanted:
    """Data, in a version of it.

    `place` is an output's prefix, a table, or whatever else was read. `read`: as which input, by
    which attempt; None of what was asked for. `writer`: its latest writer then.
    """

    place: str
    read: InputRead | None = None
    by: Origin | None = None
    writer: Writer | None = None

    @property
    def version(self) -> str:
        """The version that was read; empty: the one of now."""
        return self.read.version if self.read else ""


@dataclass(frozen=True)
class Known:
    """What a place says: the attempts that wrote it, latest last; and what is not known, in words.

    `version` is that of a table which is looked at as it is now.
    """

    origins: tuple[Origin, ...] = ()
    note: str = ""
    version: str = ""


@dataclass(frozen=True)
class Step:
    """One place of the walk, `depth` steps from its begin; then each attempt that wrote to it.

    What `writer` had read comes next.
    """

    depth: int
    wanted: Wanted
    known: Known
    writer: Origin | None = None

    @property
    def version(self) -> str:
        return self.wanted.version or self.known.version


Look = Callable[[Wanted], Known]

_ELSEWHERE: Final = Known(note="from elsewhere: no job of Longhaul is known to have written it")
_AGAIN: Final = Known(note="shown above")
_TOO_MANY: Final = Known(note=f"not looked up: there are more than {MAX_PLACES} places")


def place_of(text: str, policy: PathPolicy) -> str:
    """The place in a text, as requests name it.

    Raises:
        InvalidRequestError: it is none.
    """
    place = with_names(text, policy)
    if is_table(place) or place.startswith("s3://"):
        return place
    raise InvalidRequestError(
        [f"{text} is no s3://BUCKET/PREFIX, data:PREFIX, table:NAME or table://DATABASE/NAME"]
    )


def upstream(first: Wanted, look: Look) -> Iterator[Step]:
    """What the data comes from, each place before what that was made of."""
    looked = set[tuple[str, str]]()

    def visit(wanted: Wanted, depth: int) -> Iterator[Step]:
        place = (wanted.place, wanted.version)
        if wanted.read is not None and wanted.writer is None:
            known = _ELSEWHERE
        elif place in looked:
            known = _AGAIN
        elif len(looked) >= MAX_PLACES or depth > _MAX_DEPTH:
            known = _TOO_MANY
        else:
            looked.add(place)
            known = look(wanted)
        yield Step(depth, wanted, known)
        for origin in known.origins:
            yield Step(depth, wanted, known, origin)
            for read in origin.inputs:
                # An input may be the outputs of several jobs.
                for writer in read.writers or (None,):
                    place_read = writer.place if writer else read.path
                    yield from visit(Wanted(place_read, read, origin, writer), depth + 1)

    return visit(first, 0)


# Others write manifests too: what looks like an ARN would be asked in their account.
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class OriginReader:
    def __init__(self, s3: Any, tables: "Callable[[], TableReader]") -> None:  # noqa: ANN401 - boto3's client
        """`tables` reads the catalog; it is made where the walk comes to a table."""
        self._s3 = s3
        self._tables = tables

    def look(self, wanted: Wanted) -> Known:
        """What the place says of that version of its data.

        Of what is asked for:

        Raises:
            LonghaulError: it is no place of data, or a table of another stack's.
        """
        try:
            return self._table(wanted) if is_table(wanted.place) else self._output(wanted)
        except LonghaulError as error:
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
            raise InvalidRequestError([f"{wanted.place} is no s3://BUCKET/PREFIX"])
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
            raise InvalidRequestError([f"{wanted.place} is no table://DATABASE/NAME"])
        table = self._tables().look(path.database, path.name)
        if table is None:
            return Known(note="there is no such table")
        asked = wanted.read.snapshot if wanted.read else table.metadata.current_snapshot_id
        snapshot = table.snapshot_by_id(asked) if asked is not None else None
        if snapshot is None:
            return Known(note=f"snapshot {asked} has expired" if asked else "it has no rows yet")
        from longhaul.outputs.iceberg.history import live_files  # noqa: PLC0415 - as below

        origins, others = list[Origin](), 0
        for each, summary in _back_to_overwrite(table, snapshot):
            origin = origin_in(summary)
            if origin is not None:
                origins.append(origin)
            # A rewrite changes no rows.
            elif each.summary and each.summary.operation.value != "replace":
                others += 1
        files = [each.file_path for each in live_files(table, snapshot)]
        # The names say whose rows are left. After a compaction nothing does.
        if all(map(last_token, files)):
            origins = [each for each in origins if any(each.id.token in name for name in files)]
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


def _back_to_overwrite(
    table: "Table", latest: "Snapshot"
) -> "Iterator[tuple[Snapshot, Mapping[str, str]]]":
    """The snapshots whose rows may be in the latest one, as far as they are known; newest first."""
    # It takes a third of a second, which other data does not need.
    from longhaul.outputs.iceberg.history import MODE, summary_of  # noqa: PLC0415

    at: Snapshot | None = latest
    seen = set[int]()
    # Others write metadata too: a snapshot may be named as its own ancestor.
    while at is not None and at.snapshot_id not in seen:
        seen.add(at.snapshot_id)
        summary = summary_of(at)
        yield at, summary
        if summary.get(MODE) == "overwrite":
            return
        parent = at.parent_snapshot_id
        at = table.snapshot_by_id(parent) if parent is not None else None
