"""What a job has stored for its next attempt: the record, and who may use it. Pure.

    task     objects, under names of its attempt ─► a record that names them ─► the row's pointer
             no other attempt writes there          If-None-Match                one write, fenced
    next     the row's pointer ─► the record ─► what it names, if it was stored for the same work
    anyone   remove all that the job has stored, when its run has ended

Only what the pointer reaches exists. A zombie's objects and records are orphans: nothing names
them, and they go with the rest when the run ends. `docs/internals/lease.md` has the write as a
table.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from longhaul.core.claim import KEPT_FOR_REDRIVE, goes_on
from longhaul.core.lease import AttemptId, Lease, Owed, State, folder_name, key_of_folder
from longhaul.core.places import INTERNAL_PREFIX
from longhaul.core.settings import Model
from longhaul.outputs.lineage import Count, Text
from longhaul.outputs.manifest import FileSize, RelativePath
from longhaul.outputs.partitions import PartitionBy

PREFIX: Final = f"{INTERNAL_PREFIX}saved/"
"""Prefix of the data bucket for what jobs store. No request may name it."""

CODE, VERSION = "code ", "version "
"""How `made_by` begins: of the job's code, or of a version that the job named in its place."""

MAX_PARTS: Final = 10_000
"""Parts of all datasets of a job, with its checkpoints."""

CHECKPOINTS: Final = ""
"""In the place of a dataset's name: a checkpoint is stored as a part is, and of no output."""

MAX_STATE_BYTES: Final = 64 * 1024
"""Of `job.state` as JSON."""

MAX_FOLDER_FILES: Final = 10_000
"""Files of a folder of a job."""

# Longer, so that no claim finds what is being removed.
_REMOVED_AFTER: Final = KEPT_FOR_REDRIVE + timedelta(days=1)

_ATTEMPT: Final = re.compile(r"(\d{1,16})-(\d{1,16})/")
_PLACE: Final = r"\d{1,16}-\d{1,16}/\d{1,9}/"

Place = Annotated[str, Field(pattern=rf"^{_PLACE}$")]
ObjectName = Annotated[str, Field(pattern=rf"^{_PLACE}\d{{1,9}}$")]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Columns = Annotated[str, Field(max_length=1_000_000)]


def job_prefix(key: str) -> str:
    """The prefix below which a job stores, in all its runs."""
    return f"{PREFIX}{folder_name(key)}/"


def attempt_folder(attempt: AttemptId) -> str:
    """What an attempt stores is below this folder of `job_prefix`."""
    return f"{attempt.run}-{attempt.attempt}/"


def record_ref(attempt: AttemptId, number: int) -> str:
    """Key of an attempt's record, of which there is one for each time that it stored something."""
    return f"{job_prefix(attempt.key)}{attempt_folder(attempt)}record-{number}.json"


def key_of(prefix: str) -> str | None:
    """The job that stores below a prefix; None for a prefix of another form."""
    name = prefix.removeprefix(PREFIX).removesuffix("/")
    return key_of_folder(name) if prefix == f"{PREFIX}{name}/" else None


def attempt_of(key: str, name: str) -> AttemptId | None:
    """The attempt of the job `key` that stored the object; None for a name of another form."""
    match = _ATTEMPT.match(name.removeprefix(job_prefix(key)))
    return AttemptId(key, int(match[1]), int(match[2])) if match else None


class SavedFile(Model):
    """One object: its place below the dataset's or folder's, and its size in bytes."""

    path: RelativePath
    size: FileSize


class SavedDataset(Model):
    """A data frame: a checkpoint, or a part of an output.

    `place` is a folder of `job_prefix`; tasks write records, so it is checked again before use.
    `made_by` is what the frame was computed by: the job's code, or a version that the job named.
    """

    place: Place
    made_by: Text
    files: Annotated[tuple[SavedFile, ...], Field(max_length=100_000, fail_fast=True)]
    rows: Count
    columns: Columns  # Spark's schema as JSON; of a part, a digest of it
    # Of a part for a table.
    partition_by: tuple[PartitionBy, ...] | None = None
    required: tuple[Text, ...] = ()
    without_null: tuple[Text, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


class FolderFile(Model):
    """A file of a job's folder: the object with its bytes, below `job_prefix`."""

    object: ObjectName
    size: FileSize
    sha256: Digest


class SavedFolder(Model):
    """A job's folder; `made_by` as of a dataset."""

    made_by: Text
    files: Annotated[dict[RelativePath, FolderFile], Field(max_length=MAX_FOLDER_FILES)] = Field(
        default_factory=dict
    )


class TableRead(Model):
    """A table as a job has read it.

    Its snapshot, its columns (`schema_id`), and the latest whole overwrite of ours.
    """

    snapshot: int | None
    schema_id: int
    base: str | None


class Record(Model):
    """All that a job has stored, as of one save.

    `reads` is a digest of each input as it was read, and `tables` has the versions of those that
    are read as they are; `fingerprint` is that of the request.
    """

    version: Literal[1] = 1
    fingerprint: Text
    spark: Text
    code: Text
    reads: dict[Text, Text] = Field(default_factory=dict)
    tables: dict[Text, TableRead] = Field(default_factory=dict)
    # By dataset, and by the part's name; checkpoints too.
    parts: dict[Text, dict[Text, SavedDataset]] = Field(default_factory=dict)
    folders: dict[Text, SavedFolder] = Field(default_factory=dict)
    # What the code itself has put there and measured, so of the same code alone.
    state: dict[Text, JsonValue] = Field(default_factory=dict)
    metrics: dict[Text, int | float] = Field(default_factory=dict)

    @property
    def frames(self) -> list[SavedDataset]:
        """The parts of all datasets, and the checkpoints."""
        return [each for of_dataset in self.parts.values() for each in of_dataset.values()]

    @property
    def objects(self) -> dict[str, int]:
        """The objects that it names, below `job_prefix`, each with its size in bytes."""
        sizes = {each.place + file.path: file.size for each in self.frames for file in each.files}
        for folder in self.folders.values():
            sizes |= {file.object: file.size for file in folder.files.values()}
        return sizes

    @property
    def size_bytes(self) -> int:
        """Of all objects that it names."""
        return sum(self.objects.values())


@dataclass(frozen=True)
class Work:
    """What a record must have been stored for, to be of use to an attempt."""

    fingerprint: str
    spark: str
    code: str
    # Known when the inputs are there.
    reads: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, TableRead] = field(default_factory=dict)


def pinned(record: Record, work: Work, files: Mapping[str, str]) -> Mapping[str, TableRead]:
    """The versions in which an attempt reads tables, so that what is stored stays of use.

    Not where nothing of it is: then the attempt reads them as they are. `files` are the digests of
    the inputs that are no tables, as they are now.
    """
    is_same = (record.fingerprint, record.spark) == (work.fingerprint, work.spark)
    is_same = is_same and all(record.reads.get(name) == files[name] for name in files)
    made_by = [each.made_by for each in record.frames]
    made_by += [each.made_by for each in record.folders.values()]
    is_of_use = record.code == work.code or any(by.startswith(VERSION) for by in made_by)
    return record.tables if is_same and is_of_use else {}


def why_not(record: Record, work: Work) -> str | None:
    """Why an attempt uses nothing of a record, as a person may read it; None: it does.

    Code is not asked here: it is compared for each thing, which may name a version instead.
    """
    if record.fingerprint != work.fingerprint:
        return "the request is another one"
    if record.spark != work.spark:
        return f"it was stored by Spark {record.spark}, and this is {work.spark}"
    changed = sorted(
        name
        for name in record.reads.keys() | work.reads.keys()
        if record.reads.get(name) != work.reads.get(name)
    )
    if changed:
        return f"input {changed[0]!r} has changed since"
    return None


Decision = Literal["keep", "remove"]


def decide_saved(row: Lease | None, now: datetime) -> Decision:
    """What to do about all that a job has stored up to the row's attempt."""
    if row is None:
        return "remove"
    match row.state:
        case State.RUNNING | State.RELEASED:
            return "keep"
        case State.SUCCEEDED:  # a void commit has the job run again
            return "keep" if Owed.PUBLISH in row.owed else "remove"
        case State.CANCELLED:
            return "remove"
        case State.DEAD:
            return "keep" if now - row.ended_at < _REMOVED_AFTER else "remove"


def waits_for_next(row: Lease, now: datetime) -> AttemptId | None:
    """The attempt that stored what the job's next one would go on from; None: it has nothing."""
    is_needed = not row.state.is_terminal or goes_on(row, row.fingerprint, now)
    return attempt_of(row.key, row.saved_ref) if row.saved_ref and is_needed else None
