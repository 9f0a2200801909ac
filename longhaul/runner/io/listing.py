"""The files that an input path names: an object, a prefix, or a glob over either."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import LonghaulError, PermanentJobError
from longhaul.core.objects import objects_below
from longhaul.core.places import (
    INTERNAL_PREFIX,
    DataPath,
    InputPath,
    TableInput,
    TablePath,
    may_meet_ours,
)
from longhaul.outputs.manifest import MAIN, MANIFEST, Manifest, carries_token
from longhaul.outputs.publisher import read_manifest
from longhaul.runner.io.staged import StagedInput, extension_of, staged_folder, staged_name

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from longhaul.runner.io.table_inputs import PlannedTable, TablePlanner
    from longhaul.saved.record import TableRead

_GLOB = re.compile(r"[*?\[]")
_PARTITION = re.compile(r"[^=/]+=[^/]*")
# A request may name a thousand inputs; each costs tens of milliseconds.
_LOOK_UPS = 16
_MAX_NAMED = 10


class NoInputError(PermanentJobError):
    """Inputs are missing or empty."""


class UnnamedFileError(LonghaulError):
    """A file of an output has no manifest that names it.

    It is being published for the first time, and then a later attempt finds the manifest.
    """


@dataclass(frozen=True, slots=True)
class Source:
    """One file of an input.

    `partitions` are its `name=value` folders: columns to Spark. `etag` is S3's name of the very
    object that was found; empty where only a manifest or a table names the file.
    """

    bucket: str  # empty for a local file
    key: str
    size: int
    partitions: tuple[str, ...] = ()
    etag: str = ""
    # Of its columns that are texts, or names of folders: one mapping for all files of a manifest.
    types: Mapping[str, str] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


def staged_path(number: int, source: Source) -> str:
    """Where the file of that number goes, below the folder of its input.

    Numbered and flat: a glob may find equal names in many folders, and Spark skips nested folders.
    """
    folders = map(staged_folder, source.partitions)
    return "/".join((*folders, staged_name(number, source.name)))


def digest_of(sources: Sequence[Source]) -> str:
    """Hex digits that are the same only for the same objects."""
    digest = hashlib.sha256()
    # One line at a time, and most often as listed: a million objects leave little memory.
    in_order = all(one.key <= other.key for one, other in pairwise(sources))
    for number, s in enumerate(sources if in_order else sorted(sources, key=attrgetter("key"))):
        line = f"{s.bucket}/{s.key} {s.size} {s.etag}"
        digest.update((f"\n{line}" if number else line).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def staged_at(path: str, sources: Sequence[Source]) -> StagedInput:
    """An input of these files, for a job that reads them at the path."""
    return StagedInput(
        path=path,
        files=len(sources),
        size_bytes=sum(source.size for source in sources),
        extensions=frozenset(extension_of(source.name) for source in sources),
        parted_by=frozenset(map(partition_columns, {source.partitions for source in sources})),
        digest=digest_of(sources),
        etag=sources[0].etag if len(sources) == 1 else "",
        types=_types_of(sources),
    )


def _types_of(sources: Sequence[Source]) -> Mapping[str, str]:
    """Those on which all files agree."""
    first, *others = {id(source.types): source.types or {} for source in sources}.values()
    return dict(set(first.items()).intersection(*(each.items() for each in others)))


class InputListing:
    """Finds the files of inputs. No path reaches the `longhaul/` prefix of the data bucket."""

    def __init__(
        self,
        client: "S3Client",
        data_bucket: str,
        planner: "Callable[[], TablePlanner] | None" = None,
    ) -> None:
        """`planner` is made where a table is an input; None: an engine that reads none."""
        self._s3 = client
        self._data_bucket = data_bucket
        self._planner = planner
        self.manifests: dict[str, Manifest] = {}
        """The manifests that were followed, by their prefix (`s3://bucket/…/`).

        A job that overwrites what it read replaces these, and no newer ones.
        """
        self.versions: dict[TablePath, TableRead] = {}
        """The same for tables that are read as they are now."""
        self.tables: dict[str, PlannedTable] = {}
        """The inputs that are tables, as they were planned last, by name."""

    def tables_of(self, inputs: Mapping[str, InputPath]) -> "dict[str, PlannedTable]":
        """The files of each input that is a table.

        Raises:
            PermanentJobError: a table is missing, or cannot be read; the message names it.
            VanishedError: a file of its metadata is gone.
        """
        tables = {name: each for name, each in inputs.items() if isinstance(each, TableInput)}
        if not tables:
            return {}
        if self._planner is None:
            raise PermanentJobError(
                f"input {next(iter(tables))!r}: this engine reads no tables: send the job to engine"
                " fargate"
            )
        self.tables = self._planner().plan(tables, self.versions)
        return self.tables

    def sources_of(self, path: DataPath) -> list[Source]:
        """The files of an input, in the order of their keys.

        A prefix with one of our manifests means the files of its main dataset, and a folder or a
        glob below one the files that it names there. A prefix above manifests means the main
        datasets of them all, and the files elsewhere. Of these, hidden files and folders (`_x`,
        `.x`) are left out, as Spark does.

        Raises:
            NoInputError: an output below the path has no main dataset; the message names it.
            UnnamedFileError: a file of an output was found without its manifest.
        """
        if path.scheme == "file":
            return _local(path)

        try:
            if _GLOB.search(path.key):
                return self._below(path) or self._object(path)
            return self._object(path) or self._below(path)
        except ClientError as error:
            if code_of(error) == "NoSuchBucket":
                return []
            raise

    def may_meet_ours(self, path: DataPath) -> bool:
        """Whether another reader of the path than this one could look into `longhaul/`."""
        is_root = not path.key.strip("/")
        return path.bucket == self._data_bucket and (is_root or may_meet_ours(path.key))

    def _object(self, path: DataPath) -> list[Source]:
        if not path.key or path.key.endswith("/"):
            return []
        try:
            found = self._s3.head_object(Bucket=path.bucket, Key=path.key)
        except ClientError as error:
            if code_of(error) in ("404", "NoSuchKey"):
                return []
            raise
        return [Source(path.bucket, path.key, found["ContentLength"], etag=found["ETag"])]

    def _below(self, path: DataPath) -> list[Source]:
        """The files that a prefix or a glob means.

        The manifest nearest to a file decides whether it is one. Beside what a manifest names in a
        folder no other file counts. Elsewhere in the folder of an output those of others do.
        """
        wanted = _Wanted.of(path.key)
        outputs: dict[str, Manifest] = {}
        for place in _around(wanted.base):
            if (manifest := self._manifest_at(path, place)) is not None:
                outputs[place] = manifest
                break
        is_output = wanted.base in outputs and not wanted.patterns
        # Each has its folders at once: of a million files no second copy is kept.
        of_base = () if is_output else self._list(path.bucket, wanted.base)
        listed = [*map(wanted.parted, of_base)]
        for source in listed:
            # Spark's own is empty.
            if source.name == MANIFEST and source.size and wanted.has_output(source.key):
                place = source.key.removesuffix(MANIFEST)
                if (manifest := self._manifest_at(path, place)) is not None:
                    outputs[place] = manifest
        # By the manifest and not by the list: it may name files that came since.
        named = self._named(path.bucket, wanted, outputs)
        full = {wanted.folder(key) for key in named}
        found = [*named.values()]
        for source in listed:
            key, head = source.key, wanted.head(source.key)
            if head is None or key in named:
                continue
            around = (place for place in (*_around(key), "") if place in outputs)
            nearest = next(around, None) if outputs else None
            if nearest is not None and (_is_at(nearest, head) or wanted.folder(key) in full):
                continue
            if _is_data(source, wanted.below(key), is_inside=nearest is not None):
                found.append(source)
            elif nearest is not None:  # who reads the path in another way would find the file
                self.manifests[f"s3://{path.bucket}/{nearest}"] = outputs[nearest]
        # Else in their order: a million files leave little memory.
        return sorted(found, key=attrgetter("key")) if outputs else found

    def _named(
        self, bucket: str, wanted: "_Wanted", outputs: Mapping[str, Manifest]
    ) -> dict[str, Source]:
        """The files that manifests name, by their keys: of an output as a whole its main dataset.

        Raises:
            NoInputError: an output has none; the message names it.
        """
        named: dict[str, Source] = {}
        for place, manifest in sorted(outputs.items()):
            head = wanted.head(place + MANIFEST)
            is_whole = head is not None and _is_at(place, head)
            if is_whole and manifest.files and not manifest.of_dataset(MAIN):
                others = ", ".join(sorted({file.dataset for file in manifest.files})[:_MAX_NAMED])
                raise NoInputError(
                    f"the output s3://{bucket}/{place} has no main dataset, but {others}: name one"
                    f" of them in the path, as s3://{bucket}/{place}NAME/"
                )
            files = manifest.of_dataset(MAIN) if is_whole else manifest.files
            of_place = [
                Source(
                    bucket,
                    key,
                    file.size,
                    partitions_of(wanted.below(key)),
                    types=manifest.types.get(file.dataset),
                )
                for file in files
                # A manifest at the bucket's root may name ours.
                if not self._is_ours(bucket, key := place + file.path)
                and wanted.head(key) is not None
            ]
            if is_whole or of_place:
                self.manifests[f"s3://{bucket}/{place}"] = manifest
            named |= {source.key: source for source in of_place}
        return named

    def _manifest_at(self, path: DataPath, place: str) -> Manifest | None:
        try:
            return read_manifest(self._s3, path.bucket, place)[0]
        except ClientError as error:
            # A bucket of others may let us read the input alone.
            if code_of(error) == "AccessDenied" and path.key.rstrip("/").startswith(place):
                return None
            raise

    def _list(self, bucket: str, prefix: str) -> Iterator[Source]:
        for item in objects_below(self._s3, bucket, prefix):
            key = item["Key"]
            # A key with a slash at its end is a folder's placeholder.
            if not self._is_ours(bucket, key) and not key.endswith("/"):
                yield Source(bucket, key, item["Size"], etag=item["ETag"])

    def _is_ours(self, bucket: str, key: str) -> bool:
        return bucket == self._data_bucket and key.startswith(INTERNAL_PREFIX)


@dataclass(frozen=True)
class _Wanted:
    """What a path means: all keys that begin with `base`, or those of them that a glob matches.

    `patterns` are the segments of a glob.
    """

    base: str
    patterns: Sequence[str] = ()

    @classmethod
    def of(cls, key: str) -> "_Wanted":
        base, pattern = _split_glob(key)
        if pattern:
            return cls(base, key.rstrip("/").split("/"))
        return cls(f"{key.rstrip('/')}/".lstrip("/"))

    def head(self, key: str) -> str | None:
        """What the path means of a key: all of it, or a folder that it is in; None: nothing."""
        if not self.patterns:
            return self.base.rstrip("/") if key.startswith(self.base) else None
        head = key.split("/")[: len(self.patterns)]
        if (
            len(head) < len(self.patterns)
            or not all(map(fnmatchcase, head, self.patterns))
            # As in a shell: what is hidden is found where the path says so.
            or any(
                is_hidden(s) and not is_hidden(p) for s, p in zip(head, self.patterns, strict=True)
            )
        ):
            return None
        return "/".join(head)

    def folder(self, key: str) -> str:
        """The folder that the path means of a key, or that a file is in that it means itself."""
        head = self.head(key) or ""
        return _folder(key) if head == key else head

    def below(self, key: str) -> str:
        """The path of a key within that folder."""
        folder = self.folder(key)
        return key.removeprefix(f"{folder}/") if folder else key

    def parted(self, source: Source) -> Source:
        """The file with its partition folders below that folder."""
        partitions = partitions_of(self.below(source.key))
        return replace(source, partitions=partitions) if partitions else source

    def has_output(self, manifest: str) -> bool:
        """Whether the output of a manifest may have files that the path means."""
        if self.head(manifest) is None:
            return manifest.count("/") < len(self.patterns)
        return not is_hidden_path(_folder(self.below(manifest)))


def _local(path: DataPath) -> list[Source]:
    base, pattern = _split_glob(path.key)
    tops = sorted(Path(base).glob(pattern)) if pattern else [Path(path.key)]
    sources = []
    for top in tops:
        files = (
            [top] if top.is_file() else sorted(file for file in top.rglob("*") if file.is_file())
        )
        for file in files:
            relative = str(file.relative_to(top)) if file != top else file.name
            if not is_hidden_path(relative):
                sources.append(Source("", str(file), file.stat().st_size, partitions_of(relative)))
    return sources


def _split_glob(key: str) -> tuple[str, str]:
    """The key up to its first segment with a glob character, slash included; and the rest."""
    match = _GLOB.search(key)
    if match is None:
        return key, ""
    start = key.rfind("/", 0, match.start()) + 1
    return key[:start], key[start:].rstrip("/")


def _around(prefix: str) -> list[str]:
    """The prefix and the folders that it is in, nearest first, without the bucket's root."""
    segments = prefix.split("/")[:-1]
    return ["/".join(segments[:n]) + "/" for n in range(len(segments), 0, -1)]


def _is_at(place: str, head: str) -> bool:
    """Whether an output's prefix is the folder `head`, or in it."""
    return not head or place.startswith(f"{head}/")


def _folder(key: str) -> str:
    return key.rpartition("/")[0]


def partitions_of(relative: str) -> tuple[str, ...]:
    """The partition folders on the way to a file."""
    return _partitions_in(_folder(relative))


def partition_columns(partitions: Iterable[str]) -> tuple[str, ...]:
    """The columns of partition folders."""
    return tuple(each.partition("=")[0] for each in partitions)


# The files of a folder share them.
@lru_cache(1_000)
def _partitions_in(folder: str) -> tuple[str, ...]:
    return tuple(part for part in folder.split("/") if _PARTITION.fullmatch(part))


def is_hidden(name: str) -> bool:
    """Spark's rule: `.x` and `_x`, but not a partition folder `_x=1`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def is_foreign(name: str) -> bool:
    """Whether a file is data that no attempt wrote.

    A manifest names a file with a token, or the file is being published.
    """
    return not (carries_token(name) or is_hidden_path(name))


def is_hidden_path(path: str) -> bool:
    """Whether a file, or a folder that it is in, is hidden."""
    return any(map(is_hidden, path.split("/")))


def _is_data(source: Source, path: str, *, is_inside: bool) -> bool:
    """Whether a file that no manifest names belongs to an input, below which it is at `path`.

    `is_inside`: a manifest is in one of the folders that it is in.

    Raises:
        UnnamedFileError: it is an attempt's, and there is no manifest.
    """
    if is_hidden_path(path):
        return False
    if not carries_token(source.name):
        return True
    if is_inside:  # not published yet, or replaced
        return False
    raise UnnamedFileError(
        f"s3://{source.bucket}/{source.key} was written by a job of Longhaul, and no {MANIFEST}"
        " names it: it is about to be published, or it was copied without that file: copy it too,"
        " or give the copies names of your own"
    )


def find(listing: InputListing, inputs: Mapping[str, InputPath]) -> dict[str, list[Source]]:
    """The files of every input that is no table.

    Raises:
        NoInputError: inputs are missing or empty; the message names them.
    """
    listing.manifests = {}  # those of an earlier look may be gone
    paths = {name: each for name, each in inputs.items() if isinstance(each, DataPath)}
    with ThreadPoolExecutor(_LOOK_UPS, thread_name_prefix="listing") as pool:
        found = dict(zip(paths, pool.map(listing.sources_of, paths.values()), strict=True))
    problems = [
        problem
        for name, sources in found.items()
        if (problem := _problem(name, paths[name], sources))
    ]
    if problems:
        named = "; ".join(problems[:_MAX_NAMED])
        raise NoInputError(
            f"{named}; and {len(problems) - _MAX_NAMED} more"
            if len(problems) > _MAX_NAMED
            else named
        )
    return found


def digests_of_files(listing: InputListing, inputs: Mapping[str, InputPath]) -> dict[str, str]:
    """The digests of the inputs that are no tables, by name; raises as `find`."""
    return {name: digest_of(sources) for name, sources in find(listing, inputs).items()}


def _problem(name: str, path: DataPath, sources: Sequence[Source]) -> str | None:
    if not sources:
        return f"input {name!r}: nothing at {path}"
    if not any(source.size for source in sources):
        problem = f"input {name!r}: {path} is empty ({len(sources)} files of 0 bytes)"
        if all(source.key.endswith(".json") for source in sources):
            # What job.write makes of no rows. The other formats keep the columns.
            problem += ", and JSON without rows has no columns: write another format"
        return problem
    return None
