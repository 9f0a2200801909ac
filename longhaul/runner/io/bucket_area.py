"""The work area of an attempt on a cluster: a hidden prefix of the data bucket for it alone.

Inputs: Spark reads them where they are, or from copies inside S3.

Spark lists a path by itself, later than we do. So a path stays only if it cannot change meanwhile
and Spark reads it as we do. Outputs of ours are copied: files come and go while a new one is
published, and only the manifest says which belong together. So are folders that Spark would skip,
and what a path finds that could also lead Spark into `longhaul/`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from boto3.s3.transfer import TransferConfig

from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId, folder_name
from longhaul.core.objects import delete_keys, objects_below
from longhaul.core.places import DataPath, InputPath
from longhaul.runner.io.listing import (
    InputListing,
    Source,
    find,
    is_hidden,
    parted,
    staged_at,
    staged_path,
)
from longhaul.runner.io.saved_files import BucketFiles, S3Objects, SavedFiles
from longhaul.runner.io.staged import OF_HADOOP, StagedInput
from longhaul.runner.io.transfer import Moving, look_twice, transfer
from longhaul.runner.io.written import Folder, S3Folder

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_MIB: Final = 1024 * 1024
# A copy costs a call, and no bandwidth of ours.
_TRANSFER: Final = TransferConfig(
    multipart_threshold=512 * _MIB, multipart_chunksize=128 * _MIB, max_concurrency=32
)
# Hadoop's globs have more operators than ours: to Spark a path with one of these means another set.
_SPECIAL: Final = re.compile(r"[{}\[\]\\^]")
_GLOB: Final = re.compile(r"[*?]")


@dataclass(frozen=True)
class BucketArea:
    """`longhaul.runner.io.work_area.WorkArea`, of which no input can be a part."""

    client: "S3Client"
    folder: S3Folder

    @classmethod
    def at(cls, uri: str, client: "S3Client", attempt: AttemptId) -> "BucketArea":
        """That of an attempt, below the prefix of all."""
        place = DataPath.on_s3(uri)
        folder = f"{place.key}{folder_name(attempt.key)}/{attempt.run}-{attempt.attempt}/"
        return cls(client, S3Folder(place.bucket, folder))

    @property
    def output(self) -> Folder:
        return self.folder / "output"

    def saved_files(self, objects: S3Objects) -> SavedFiles:
        return BucketFiles(self.client, objects)

    def clear(self) -> None:
        found = objects_below(self.client, self.folder.bucket, self.folder.prefix)
        delete_keys(self.client, self.folder.bucket, [item["Key"] for item in found])

    def stage(
        self, listing: InputListing, inputs: Mapping[str, InputPath], moving: Moving
    ) -> Mapping[str, StagedInput]:
        """The inputs as paths for Spark.

        What has to be copied is copied below the folder, in the layout of staging to disk.

        Raises:
            PermanentJobError: an input is missing or empty, archived, on a disk, or a table.
            InputChangingError: files vanished while they were copied, twice.
            StopRequestedError: the attempt has to stop.
        """
        paths, tables = parted(inputs)
        if tables:
            raise PermanentJobError(
                f"input {next(iter(tables))!r}: a cluster reads no tables: send the job to engine"
                " fargate"
            )
        folders = iter((self.folder / "inputs/first", self.folder / "inputs/again"))
        return look_twice(lambda: self._stage(listing, paths, next(folders), moving))

    def _stage(
        self,
        listing: InputListing,
        paths: Mapping[str, DataPath],
        target: S3Folder,
        moving: Moving,
    ) -> dict[str, StagedInput]:
        sources = find(listing, paths)
        moving.stop.check()
        _require_on_s3(sources)
        in_place = {name for name, path in paths.items() if _stays(path, sources[name], listing)}
        copied = {name: files for name, files in sources.items() if name not in in_place}
        moving.begin(sum(source.size for files in copied.values() for source in files))
        transfer(
            self.client,
            _TRANSFER,
            (
                ((target / name).prefix + staged_path(number, source), source)
                for name, files in copied.items()
                for number, source in enumerate(files)
            ),
            lambda manager, source, key, subscribers: manager.copy(
                {"Bucket": source.bucket, "Key": source.key},
                target.bucket,
                key,
                # Without tags: their copy needs rights that nothing else here needs.
                extra_args={"TaggingDirective": "REPLACE"},
                subscribers=subscribers,
            ),
            condition="CopySourceIfMatch",
            moving=moving,
        )
        return {
            name: staged_at(
                _path_of(paths[name], files) if name in in_place else (target / name).as_uri(),
                files,
            )
            for name, files in sources.items()
        }


def _require_on_s3(sources: Mapping[str, list[Source]]) -> None:
    for name, files in sources.items():
        if any(not source.bucket for source in files):
            raise PermanentJobError(
                f"input {name!r}: file: paths are on one machine, which a cluster does not reach"
            )


def _stays(path: DataPath, sources: list[Source], listing: InputListing) -> bool:
    """Whether Spark may read the path itself."""
    prefix = f"{str(path).rstrip('/')}/"
    glob = _GLOB.search(prefix)
    base = prefix[: prefix.rfind("/", 0, glob.start()) + 1] if glob else prefix
    is_ours = any(base.startswith(found) or found.startswith(base) for found in listing.manifests)
    return reads_alike(path, sources) and not is_ours and not listing.may_meet_ours(path)


def reads_alike(path: DataPath, sources: list[Source]) -> bool:
    """Whether Spark, given the path, reads exactly these files, and their folders as we do."""
    key = path.key.rstrip("/")
    # Spark skips a hidden file also where the path names it.
    if _SPECIAL.search(key) or any(
        is_hidden(source.name) or OF_HADOOP.search(source.name) for source in sources
    ):
        return False
    if _GLOB.search(key):
        # Only files that the glob itself matches: Spark and we search folders in different ways.
        depth = key.count("/")
        return all(source.key.count("/") == depth for source in sources)
    if [source.key for source in sources] == [key]:
        return True
    base = f"{key}/".lstrip("/")
    return all(
        source.key == "/".join((base.rstrip("/"), *source.partitions, source.name)).lstrip("/")
        for source in sources
    )


def _path_of(path: DataPath, sources: list[Source]) -> str:
    """As Spark wants it: a prefix ends with a slash, so that it is never taken for an object."""
    key = path.key.rstrip("/")
    is_prefix = not _GLOB.search(key) and [source.key for source in sources] != [key]
    return f"s3://{path.bucket}/{key}/" if is_prefix and key else f"s3://{path.bucket}/{key}"
