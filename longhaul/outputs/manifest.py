"""The manifest of an output, `_SUCCESS`: exactly the files that belong to it. Pure.

A publication removes what it replaces and adds its own files; what others added meanwhile stays:

    overwrite   replaces what the manifest named when its job had ended
    append      replaces what an earlier run of the same job had added, and nothing else
    error       replaces what an earlier run of the same job wrote, and there must be nothing else

So of two appends none is lost, and an overwrite keeps an append that it never saw.
Two overwrites of the same manifest are told apart by `base`: the second counts as published before
the first, and replaced by it.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from enum import Enum, auto
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator

from longhaul.core.places import MAX_BESIDE, TablePath, data_folder
from longhaul.core.settings import Mode, Model
from longhaul.outputs.lineage import (
    MAX_COUNT,
    MAX_ORIGINS,
    MAX_TEXT,
    ByAttempt,
    Count,
    Origin,
    Text,
)
from longhaul.outputs.partitions import PartitionBy

MANIFEST: Final = "_SUCCESS"
"""Spark's own marker: other readers skip it, and take it as a finished job. Ours has content."""

# A run is a time in milliseconds. Strict: a file of others that has this form is never read.
_TOKEN: Final = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{20}-[0-9]{13}-[0-9]+(?![0-9A-Za-z])")

MAIN: Final = "."
"""Name of the dataset that is the output itself."""

MAX_FILES: Final = 100_000
"""Files of an output at most: a function of 1 GB reads its manifest whole, and its list."""

# A forged size must not get into sums that the table or a float cannot hold. S3's limit is less.
_MAX_FILE_BYTES: Final = 2**50

# Columns of a dataset whose types are kept; of one with more none.
MAX_TYPED: Final = 5_000

_TYPE: Final = (
    r"boolean|byte|short|integer|long|float|double|decimal\([0-9]{1,2},[0-9]{1,2}\)|date|timestamp"
    r"|timestamp_ntz|interval (year|month|day|hour|minute|second)( to (month|hour|minute|second))?"
)

_IS_TYPE: Final = re.compile(_TYPE).fullmatch

# A publication is repeated until it is struck off, by the sweeper at the latest. One whose files
# have been replaced since is recognized as done after up to this many others.
_PUBLISHED_KEPT: Final = 1_000


# S3 lists and deletes keys in XML, which cannot hold these, or makes another character of them.
_NOT_IN_XML: Final = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")


def relative(path: str) -> str:
    """The path, if a file of an output may have it.

    Its names come from a job's rows, in any writing: only what S3 cannot hold is refused.

    Raises:
        ValueError: it may not; the message continues a sentence about the path.
    """
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError("must be a relative path without empty, '.' or '..' segments")
    if _NOT_IN_XML.search(path):
        raise ValueError("has characters that S3 cannot list")
    return path


def is_typed(column: str, type_: object) -> bool:
    """Whether a manifest says the type of such a column."""
    return len(column) <= MAX_TEXT and isinstance(type_, str) and _IS_TYPE(type_) is not None


def carries_token(path: str) -> bool:
    """Whether the file's name has an attempt's token: no job of ours wrote one without.

    A manifest may be forged. What it names is read, and deleted only with a token.
    """
    return _token_of(path) is not None


def _token_of(path: str) -> str | None:
    return last_token(path.rpartition("/")[2])


def last_token(path: str) -> str | None:
    """That of the attempt that wrote it: a file that came with another's token keeps it."""
    return next(reversed(_TOKEN.findall(path)), None)


def is_of_earlier_run(path: str, token: str) -> bool:
    """Whether an earlier run of the job of that attempt wrote a file."""
    key_hash, run, _ = token.split("-")
    found = (last_token(path) or "--").split("-")
    return found[0] == key_hash and int(found[1]) < int(run)


# A list may be forged, too. At the first wrong item validation ends: there is room for millions.
_OF_FILES: Final = Field(max_length=2 * MAX_FILES, fail_fast=True)
_OF_PARTS: Final = Field(max_length=10_000, fail_fast=True)  # S3's limit of an upload
_OF_OUTPUTS: Final = Field(max_length=MAX_BESIDE, fail_fast=True)

RelativePath = Annotated[Text, AfterValidator(relative)]
# As Spark's JSON of a schema names it.
TypeName = Annotated[str, Field(pattern=rf"^({_TYPE})$")]
FileSize = Annotated[int, Field(ge=0, le=_MAX_FILE_BYTES)]


MAX_STATISTICS: Final = 200_000
"""Columns of all files of an output at most: a function of 1 GB holds their statistics."""

# Iceberg's single-value binary form of a bound or a partition's value, as in a manifest.
Binary = Annotated[
    bytes,
    PlainValidator(lambda value: b64decode(value) if isinstance(value, str) else value),
    PlainSerializer(lambda value: b64encode(value).decode(), when_used="json"),
]


class ColumnStatistics(Model):
    size: int = 0
    values: int | None = None
    nulls: int | None = None
    nans: int | None = None
    lower: Binary | None = None
    upper: Binary | None = None


class TableFile(Model):
    """A data file, of one partition. `path` is below the table's location."""

    path: str
    size: int
    rows: int
    partition: tuple[Binary | None, ...] = ()  # in the order of `partition_by`
    columns: dict[int, ColumnStatistics]  # by field id
    split_offsets: tuple[int, ...] = ()


class PendingTable(Model):
    """What one table gets from an attempt."""

    database: str
    name: str
    location: str
    mode: Mode
    columns: str  # Iceberg's JSON of the written columns, with the field ids of the files
    partition_by: tuple[PartitionBy, ...] = ()
    # What an overwrite replaces: the rows of this snapshot, and the latest whole overwrite of ours
    # at that time.
    replaces_snapshot: int | None = None
    replaces_base: str | None = None
    # Whether an earlier run of the job may have added rows, which an append replaces.
    again: bool = False
    files: Annotated[tuple[TableFile, ...], Field(fail_fast=True)] = ()

    @property
    def path(self) -> TablePath:
        return TablePath(self.database, self.name)


class ManifestFile(Model):
    """One file, relative to the output's prefix.

    `dataset` is `.` for the output itself, else the name it was written under.
    """

    path: RelativePath
    size: FileSize
    dataset: Text = MAIN


class Manifest(ByAttempt):
    """Content of `_SUCCESS`: the files of the output, and row counts by dataset where known.

    Key, run and attempt are those of the latest publisher.
    """

    version: Literal[1] = 1
    # Twice as many as one job writes: appends that come at once may each see room for their files.
    files: Annotated[tuple[ManifestFile, ...], _OF_FILES]
    rows: Annotated[dict[Text, Count], Field(max_length=2 * MAX_FILES)] = Field(
        default_factory=dict
    )
    # By dataset and column: types of columns that are texts in its files, or names of folders.
    types: Annotated[
        dict[Text, Annotated[dict[Text, TypeName], Field(max_length=MAX_TYPED)]],
        Field(max_length=2 * MAX_FILES),
    ] = Field(default_factory=dict)
    # What the job of the latest publisher returned, counted and measured: `core.results`. It may
    # be forged.
    results: dict[str, Any] | None = None
    # Token of the latest publication that was no append; None while there were only appends.
    base: Text | None = None
    # Tokens of this publication and of those before it, oldest first: a publisher that finds its
    # own is done, even if its files have been replaced since.
    published: Annotated[tuple[Text, ...], Field(max_length=_PUBLISHED_KEPT, fail_fast=True)] = ()
    # The attempts whose files these are, with what they read, oldest first.
    origins: Annotated[tuple[Origin, ...], Field(max_length=MAX_ORIGINS, fail_fast=True)] = ()

    @property
    def token(self) -> str:
        return self.id.token

    def tells_of(self, token: str) -> bool:
        """Whether that attempt's output is, or was, part of this one.

        Its files say so by their names, for as long as they are there.
        """
        known = (self.token, *self.published)
        return token in known or any(_token_of(file.path) == token for file in self.files)

    def is_all_of_job(self, token: str) -> bool:
        """Whether runs of that attempt's job alone have written what is there."""
        of_job = f"{token.partition('-')[0]}-"
        tokens = (self.token, *(last_token(file.path) for file in self.files))
        return all(each is not None and each.startswith(of_job) for each in tokens)

    def of_dataset(self, dataset: str) -> list[ManifestFile]:
        return [file for file in self.files if file.dataset == dataset]


class Part(Model):
    n: int
    etag: Text
    crc32: Text | None = None


class Upload(Model):
    """One pending multipart upload: a file of the output, and all that completing it takes."""

    path: RelativePath
    upload_id: Text
    size: FileSize
    parts: Annotated[tuple[Part, ...], _OF_PARTS] = ()


class PendingOutput(Model):
    """The pending list of an attempt.

    Without parts and manifest (so that the uploads can be aborted) until the last part is sent.
    Version 2 has tables: one that reads only version 1 would publish a manifest instead. Version 3
    has outputs beside the main one, which one that reads only version 2 would leave.
    """

    version: Literal[1, 2, 3] = 1
    token: Text
    prefix: Text
    mode: Mode = "overwrite"
    # What an overwrite saw when its job had ended: the base and files of our manifest, or the ETag
    # of a `_SUCCESS` that is not ours. What the others saw of earlier runs of their own job.
    replaces_base: Text | None = None
    replaces_etag: Text | None = None
    replaces: Annotated[tuple[RelativePath, ...], _OF_FILES] = ()
    uploads: Annotated[tuple[Upload, ...], _OF_FILES] = ()
    # Of an output to tables it only says that the upload has ended, and is not put anywhere.
    manifest: Manifest | None = None
    # Of an output to tables. The prefix is their database's then.
    is_of_tables: bool = False
    # What each table gets: nothing of a job that only emitted.
    tables: Annotated[tuple[PendingTable, ...], _OF_FILES] = ()
    # The attempt's other outputs: each with its own mode, uploads and manifest, none with others.
    beside: Annotated[tuple["PendingOutput", ...], _OF_OUTPUTS] = ()

    @property
    def outputs(self) -> tuple["PendingOutput", ...]:
        """All of them, in the order in which they become visible: first those to tables.

        These are more likely to be refused, because others write tables too, and then no other has
        become visible. Among tables and prefixes it is the order of their paths, so that it is the
        same for each attempt that has the same outputs, whichever is its main one. One to tables
        to which nothing was written has nothing to show.
        """
        shown = (each for each in (self, *self.beside) if each.tables or not each.is_of_tables)
        return tuple(sorted(shown, key=_turn))

    @property
    def name(self) -> str:
        """For people: its tables, or its prefix."""
        return ", ".join(str(each.path) for each in self.tables) or self.prefix

    @property
    def folders(self) -> tuple[str, ...]:
        """Below the prefix: where the files are."""
        return tuple(f"{table.name}/{data_folder(self.token)}" for table in self.tables) or ("",)


def _turn(output: PendingOutput) -> tuple[bool, list[str], str]:
    return not output.tables, sorted(str(each.path) for each in output.tables), output.prefix


class Switch(Enum):
    """What is left to do about `_SUCCESS` for a committed output."""

    DUE = auto()  # put the merged manifest
    DONE = auto()  # it was put
    # Another overwrite of the same manifest came first: this one counts as the earlier of the two.
    # Or a later run of the same job has appended.
    REPLACED = auto()
    # It cannot become visible: another job's output is there (error), or something that no manifest
    # of ours lists (append).
    OCCUPIED = auto()


def decide_switch(pending: PendingOutput, current: Manifest | None, etag: str | None) -> Switch:
    """What to do, given the manifest in place.

    `current` None with an ETag is a `_SUCCESS` that is not ours; without an ETag there is none.
    """
    if current is not None and current.tells_of(pending.token):
        return Switch.DONE
    if etag is None:  # nothing there, or removed by hand: no reason to withhold a committed output
        return Switch.DUE
    match pending.mode:
        case "overwrite_partitions":
            raise AssertionError("a mode of tables alone")
        case "overwrite" if current is None:
            return Switch.DUE if etag == pending.replaces_etag else Switch.REPLACED
        case _ if current is None:
            return Switch.OCCUPIED
        case "error" if not current.is_all_of_job(pending.token):
            return Switch.OCCUPIED
        case "append":
            return Switch.REPLACED if _was_run_again(current, pending.token) else Switch.DUE
        case _:
            return Switch.DUE if current.base == pending.replaces_base else Switch.REPLACED


def _was_run_again(current: Manifest, token: str) -> bool:
    """Whether the files of a later run of the same job are there."""
    tokens = (_token_of(file.path) for file in current.files)
    return any(each is not None and is_of_earlier_run(token, each) for each in tokens)


def merged(pending: PendingOutput, current: Manifest | None) -> Manifest:
    """The manifest that makes the output visible in place of the current one.

    Raises:
        ValueError: the pending list has no manifest yet: its upload never ended.
    """
    if pending.manifest is None:
        raise ValueError("an upload that has not ended cannot be published")
    gone = set(pending.replaces)
    kept = [file for file in current.files if file.path not in gone] if current else []
    appends = pending.mode == "append"
    published = (current.published or (current.token,)) if current else ()
    return pending.manifest.model_copy(
        update={
            "files": (*kept, *pending.manifest.files),
            "rows": _rows(pending.manifest, current, kept),
            "types": _types(pending.manifest, current, kept),
            "base": (current.base if current else None) if appends else pending.token,
            "published": (*published, pending.token)[-_PUBLISHED_KEPT:],
            "origins": (*_origins(current, kept), *pending.manifest.origins)[-MAX_ORIGINS:],
        }
    )


def _origins(current: Manifest | None, kept: list[ManifestFile]) -> Iterator[Origin]:
    """Those of the current manifest whose files are kept."""
    tokens = {_token_of(file.path) for file in kept}
    for origin in current.origins if current else ():
        if origin.id.token in tokens:
            yield origin


def _types(
    ours: Manifest, current: Manifest | None, kept: list[ManifestFile]
) -> dict[str, dict[str, str]]:
    """The types of each dataset's columns, where all of its files agree."""
    found: dict[str, dict[str, str]] = {}
    for manifest, files in ((ours, ours.files), (current or ours, kept)):
        for dataset in {file.dataset for file in files}:
            types = manifest.types.get(dataset, {})
            agreed = found.get(dataset, types)
            found[dataset] = dict(agreed.items() & types.items())
    return {dataset: types for dataset, types in sorted(found.items()) if types}


def _rows(ours: Manifest, current: Manifest | None, kept: list[ManifestFile]) -> dict[str, int]:
    """Row counts of the datasets, where all of the files are counted.

    That is in `ours`, or in a dataset of the current manifest that is kept whole.
    """
    counts: dict[str, int] = {}
    for dataset in (
        {file.dataset for file in kept} | {file.dataset for file in ours.files} | ours.rows.keys()
    ):
        terms = []
        if current is not None and any(file.dataset == dataset for file in kept):
            whole = len(current.of_dataset(dataset)) == sum(
                file.dataset == dataset for file in kept
            )
            terms.append(current.rows.get(dataset) if whole else None)
        if ours.of_dataset(dataset):
            terms.append(ours.rows.get(dataset))
        known = [term for term in terms if term is not None]
        if len(known) == len(terms) and sum(known) <= MAX_COUNT:
            counts[dataset] = sum(known)
    return dict(sorted(counts.items()))
